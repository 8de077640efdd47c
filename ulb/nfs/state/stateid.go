package state

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Stateids that the protocol gives a meaning of their own (RFC 8881 §8.2.3).
var (
	// Anonymous stands for no state at all.
	Anonymous nfs4wire.StateID4
	// Bypass is Anonymous, but for a READ, which no deny mode holds up.
	Bypass = nfs4wire.StateID4{Seqid: 1<<32 - 1, Other: allOnes}
	// CurrentID is replaced by the current stateid, from minor version 1 on.
	CurrentID = nfs4wire.StateID4{Seqid: 1}
	// InvalidID is never valid.
	InvalidID = nfs4wire.StateID4{Seqid: 1<<32 - 1}

	allOnes = [nfs4wire.NFS4OtherSize]byte{255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255}
)

// IsSpecial says that id names no state, be it one of the above or reserved.
func IsSpecial(id *nfs4wire.StateID4) bool {
	return id.Other == [nfs4wire.NFS4OtherSize]byte{} || id.Other == allOnes
}

// A Kind is what a stateid stands for.
type Kind uint8

// Kinds of State.
const (
	KindOpen Kind = iota + 1
	KindLock
)

// A State is what one stateid stands for: the opens of a file by an open-owner, or the
// byte ranges of it that a lock-owner has locked through one of those.
type State struct {
	Kind   Kind
	Client *Client
	Owner  *Owner
	Key    FileKey

	other [nfs4wire.NFS4OtherSize]byte
	seqid atomic.Uint32
	// revoked: it was taken away by the administrator, and is gone.
	revoked atomic.Bool
	// opened is nil once the state is gone. A lock's is its open's.
	opened atomic.Pointer[opened]

	// What follows is guarded by Manager.mu.

	file *file // nil once the state is gone
	at   int   // of an open: in its group of file.opens
	// Of an open:
	modes modes
	locks map[*Owner]*State
	// Of a lock:
	open   *State
	ranges ranges
}

// opened is what an open may do, and the open files with which it does it. It does not
// change: another one takes its place.
type opened struct {
	access Access
	grants [AccessBoth + 1]grant // by the access that was asked for
}

// A grant is what one principal was granted by an OPEN. Its file is nil where the file
// system has no open files.
type grant struct {
	open bool
	by   Principal
	file vfs.File
}

// grant is what lets by do want, or nil.
func (o *opened) grant(want Access, by Principal) *grant {
	for _, access := range [...]Access{want, AccessBoth} {
		if g := &o.grants[access]; g.open && g.by == by {
			return g
		}
	}
	return nil
}

// ID is the stateid as it stands now.
func (s *State) ID() nfs4wire.StateID4 {
	return nfs4wire.StateID4{Seqid: s.seqid.Load(), Other: s.other}
}

// granted is what s may do, or the open that s locks by: nil where that was closed.
func (s *State) granted() *opened {
	if s.Kind == KindLock {
		s = s.open
	}
	return s.opened.Load()
}

// For says whether the state allows want, which is AccessRead or AccessWrite, and with
// which open file. The file is nil where by did not open it for that, or the file system
// has no open files: then by is judged as itself, by the file's handle. The file may be
// closed meanwhile, and then answers EBADF: the stateid was given up. For takes no lock.
func (s *State) For(want Access, by Principal) (vfs.File, Status) {
	o := s.granted()
	switch {
	case o == nil:
		return nil, nfs4wire.NFS4ErrBadStateID
	case o.access&want != want:
		return nil, nfs4wire.NFS4ErrOpenMode
	}
	if g := o.grant(want, by); g != nil {
		return g.file, nfs4wire.NFS4OK
	}
	return nil, nfs4wire.NFS4OK
}

// OpenedBy says whether by opened the file for want. It is false where the state is gone.
func (s *State) OpenedBy(want Access, by Principal) bool {
	o := s.granted()
	return o != nil && o.grant(want, by) != nil
}

// bump makes the next stateid of s, and returns it. It is called with Manager.mu held.
func (s *State) bump() nfs4wire.StateID4 {
	n := s.seqid.Load() + 1
	if n == 0 {
		n = 1 // RFC 8881 §8.2.2
	}
	s.seqid.Store(n)
	return s.ID()
}

// Sizes of the slab.
const (
	chunkSlots = 1 << 10
	maxChunks  = 1 << 10
	// MaxStates is how many stateids there may be at once.
	MaxStates = chunkSlots * maxChunks
)

// A slab finds states by their stateids without a lock: Other is the epoch of the
// server, the index of a slot, and the slot's generation, of 32 bits each. The last of them
// is scrambled: in minor version 0 a stateid is all that tells its holder from others.
type slab struct {
	chunks [maxChunks]atomic.Pointer[[chunkSlots]slot]

	// What follows is guarded by Manager.mu.

	used uint32   // slots that were ever used
	free []uint32 // slots that can be used again

	scramble scrambler
}

type slot struct {
	state atomic.Pointer[State]
	// expired is the generation that was taken away last, as the stateid had it.
	expired atomic.Uint32
	// generation is guarded by Manager.mu.
	generation uint32
}

func (b *slab) slot(index uint32) *slot {
	if index >= MaxStates {
		return nil
	}
	c := b.chunks[index/chunkSlots].Load()
	if c == nil {
		return nil
	}
	return &c[index%chunkSlots]
}

// add gives s a stateid that never was. It is false where there is no room.
func (b *slab) add(s *State, epoch uint32) bool {
	var index uint32
	switch n := len(b.free); {
	case n > 0:
		index = b.free[n-1]
		b.free = b.free[:n-1]
	case b.used < MaxStates:
		index = b.used
		b.used++
		if c := &b.chunks[index/chunkSlots]; c.Load() == nil {
			c.Store(new([chunkSlots]slot))
		}
	default:
		return false
	}
	sl := b.slot(index)
	sl.generation++
	binary.BigEndian.PutUint32(s.other[0:], epoch)
	binary.BigEndian.PutUint32(s.other[4:], index)
	binary.BigEndian.PutUint32(s.other[8:], b.scramble.of(index, sl.generation))
	s.seqid.Store(1)
	sl.state.Store(s)
	return true
}

// remove ends the stateid of s. expired: it was taken away.
func (b *slab) remove(s *State, expired bool) {
	index := binary.BigEndian.Uint32(s.other[4:])
	sl := b.slot(index)
	sl.state.Store(nil)
	if expired {
		sl.expired.Store(binary.BigEndian.Uint32(s.other[8:]))
	}
	if sl.generation != 1<<32-1 { // else its generations are used up
		b.free = append(b.free, index)
	}
}

// Find returns the state of a stateid that is not special. c is the client that asks,
// or nil in minor version 0, where the stateid says who that is. It takes no lock.
//
// From minor version 1 on a Seqid of 0 stands for the newest.
func (m *Manager) Find(id *nfs4wire.StateID4, c *Client) (*State, Status) {
	s, status := m.named(id, c)
	if status != nfs4wire.NFS4OK {
		return nil, status
	}
	if status = s.current(id, c); status != nfs4wire.NFS4OK {
		return nil, status
	}
	return s, nfs4wire.NFS4OK
}

// current says whether id, which names s, is how the stateid stands now.
func (s *State) current(id *nfs4wire.StateID4, c *Client) Status {
	switch now := s.seqid.Load(); {
	case s.revoked.Load():
		return nfs4wire.NFS4ErrAdminRevoked
	case s.Kind == KindOpen && s.opened.Load() == nil:
		// It was closed, and is known only in case that the CLOSE comes again.
		return nfs4wire.NFS4ErrBadStateID
	case id.Seqid == now, id.Seqid == 0 && c != nil:
		return nfs4wire.NFS4OK
	case older(id.Seqid, now):
		return nfs4wire.NFS4ErrOldStateID
	}
	return nfs4wire.NFS4ErrBadStateID
}

// wrap is how far behind the largest seqid one is taken for older than a small one: more
// than there are requests under way at once (RFC 8881 §8.2.2).
const wrap = 4096

func older(a, b uint32) bool {
	switch {
	case a > 1<<32-1-wrap && b < wrap:
		return true
	case b > 1<<32-1-wrap && a < wrap:
		return false
	}
	return a < b
}

// named is Find without the seqid.
func (m *Manager) named(id *nfs4wire.StateID4, c *Client) (*State, Status) {
	if IsSpecial(id) {
		return nil, nfs4wire.NFS4ErrBadStateID
	}
	b := &m.files.slab
	if binary.BigEndian.Uint32(id.Other[0:]) != m.epoch {
		if c == nil {
			return nil, nfs4wire.NFS4ErrStaleStateID
		}
		return nil, nfs4wire.NFS4ErrBadStateID
	}
	sl := b.slot(binary.BigEndian.Uint32(id.Other[4:]))
	if sl == nil {
		return nil, nfs4wire.NFS4ErrBadStateID
	}
	s := sl.state.Load()
	switch {
	case s != nil && s.other == id.Other && (s.Client == c || c == nil && s.Client.Minor == 0):
		return s, nfs4wire.NFS4OK
	case c == nil && sl.expired.Load() == binary.BigEndian.Uint32(id.Other[8:]):
		return nil, nfs4wire.NFS4ErrExpired
	}
	return nil, nfs4wire.NFS4ErrBadStateID
}
