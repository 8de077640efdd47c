package state

import (
	"encoding/binary"
	"hash/maphash"
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/byterange"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// otherSize is the length of StateID.Other.
const otherSize = 12

// A StateID names a State. It is what NFSv4 has on the wire (RFC 8881 §3.3.12); other protocols have none. It is a
// type without a name of its own, so that it can be assigned to the one on the wire.
type StateID = struct {
	// Seqid counts the changes of the state.
	Seqid uint32
	Other [otherSize]byte
}

// Stateids with a special meaning (RFC 8881 §8.2.3).
var (
	// Anonymous refers to no state.
	Anonymous StateID
	// Bypass is like Anonymous, but a READ with it ignores deny modes.
	Bypass = StateID{Seqid: 1<<32 - 1, Other: allOnes}
	// CurrentID refers to the current stateid, from minor version 1 on.
	CurrentID = StateID{Seqid: 1}
	// InvalidID is never valid.
	InvalidID = StateID{Seqid: 1<<32 - 1}

	allOnes = [otherSize]byte{255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255}
)

// IsSpecial reports whether id names no state: it is one of the stateids above, or reserved.
func IsSpecial(id *StateID) bool {
	return id.Other == [otherSize]byte{} || id.Other == allOnes
}

// A Kind is the kind of state that a stateid names.
type Kind uint8

// Kinds of State.
const (
	KindOpen Kind = iota + 1
	KindLock
)

// A State is the state of one stateid: the opens of a file by one open-owner, or the byte ranges that
// one lock-owner has locked through such an open.
type State struct {
	Kind   Kind
	Client *Client
	Owner  *Owner
	Key    FileKey
	// Export is the number of the export by which the client opened the file (export.Export.ID). It stays the
	// same when the export is replaced. In minor version 0 a stateid is all that a request needs to act on
	// it, so a stateid is good only for requests that reach the file by the same export.
	Export uint32

	other [otherSize]byte
	seqid atomic.Uint32
	// revoked is true if the server took the open away, with all locks made through it: see isRevoked.
	revoked atomic.Bool
	// opened is the access of an open; nil in a lock, and once the open has ended.
	opened atomic.Pointer[opened]

	// Manager.mu guards the fields below.

	file *file // nil once the state is gone
	// Only an open has modes, locks, which is the lock state of each lock-owner, and the number of its waiters.
	modes   modes
	locks   map[*Owner]*State
	waiters int
	// Only a lock has open, through which it was made, and held: its byte ranges.
	open *State
	held byterange.Holder[*State]
}

// opened is the access that an open allows, with its open files. It is immutable.
type opened struct {
	access Access
	grants [AccessBoth + 1]grant // indexed by the access that the OPEN asked for
}

// A grant is the access that an OPEN gave to one principal. open is false in an unused grant.
type grant struct {
	open bool
	by   Principal
	file vfs.File
}

// grant returns a grant of this principal that includes the wanted access, or nil.
func (o *opened) grant(want Access, by Principal) *grant {
	for _, access := range [...]Access{want, AccessBoth} {
		if g := &o.grants[access]; g.open && g.by == by {
			return g
		}
	}
	return nil
}

// isRevoked reports whether the server took the state away, or is about to: while file is not nil, it still ends locks.
func (s *State) isRevoked() bool {
	if s.Kind == KindLock {
		s = s.open
	}
	return s.revoked.Load()
}

// ID returns the current stateid, with its seqid.
func (s *State) ID() StateID {
	return StateID{Seqid: s.seqid.Load(), Other: s.other}
}

// granted returns the access that the open s, or the open of the lock s, allows; nil once it has ended.
func (s *State) granted() *opened {
	if s.Kind == KindLock {
		s = s.open
	}
	return s.opened.Load()
}

// For returns Granted if the state allows the wanted access (AccessRead or AccessWrite), with the open
// file to use. If the principal did not open the file for that access, or the file system has no open
// files, the file is nil; the caller then uses the handle, and the file system checks the permissions.
// If another request closes the file meanwhile, calls on it return EBADF. For takes no lock.
func (s *State) For(want Access, by Principal) (vfs.File, Verdict) {
	o := s.granted()
	switch {
	case o == nil:
		return nil, UnknownID
	case o.access&want != want:
		return nil, NotOpenFor
	}
	if g := o.grant(want, by); g != nil {
		return g.file, Granted
	}
	return nil, Granted
}

// OpenedBy reports whether this principal has the file open for the wanted access.
func (s *State) OpenedBy(want Access, by Principal) bool {
	o := s.granted()
	return o != nil && o.grant(want, by) != nil
}

// bump advances the seqid of s and returns the new stateid.
func (g *guard) bump(s *State) StateID {
	n := s.seqid.Load() + 1
	if n == 0 {
		n = 1 // RFC 8881 §8.2.2
	}
	s.seqid.Store(n)
	return s.ID()
}

// Sizes of the slab. MaxStates is the largest number of stateids at one time.
const (
	chunkSlots = 1 << 10
	maxChunks  = 1 << 10
	MaxStates  = chunkSlots * maxChunks
)

// A slab finds states by their stateids without a lock. The field Other of a stateid consists of the
// server's epoch (32 bits), the index of a slot (20 bits), and the slot's generation. The generation is
// scrambled to secretBits bits, because in minor version 0 every client that knows a stateid can use it.
type slab struct {
	chunks [maxChunks]atomic.Pointer[[chunkSlots]slot]

	// Manager.mu guards the fields below.

	used uint32   // number of slots used so far
	free []uint32 // slots to use again

	scramble scrambler
}

// secretBits is the number of bits of a stateid that cannot be guessed. An index takes the other bits of
// the lower two thirds of Other.
const secretBits = 44

// slotOf returns the index in a stateid.
func slotOf(other *[otherSize]byte) uint32 {
	return uint32(binary.BigEndian.Uint64(other[4:]) >> secretBits)
}

type slot struct {
	state atomic.Pointer[State]
	// expired is the lower half of the last stateid in the slot that ended because its client was
	// removed. In minor version 0, a request with that stateid gets NFS4ERR_EXPIRED.
	expired atomic.Uint32
	// Manager.mu guards generation.
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

// add gives s a stateid that was never used before. It returns false if all slots are in use.
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
	binary.BigEndian.PutUint64(s.other[4:], uint64(index)<<secretBits|b.scramble.of(index, uint64(sl.generation), secretBits))
	s.seqid.Store(1)
	sl.state.Store(s)
	return true
}

// remove ends the stateid of s.
func (b *slab) remove(s *State) {
	index := slotOf(&s.other)
	sl := b.slot(index)
	sl.state.Store(nil)
	if s.Client.known.ending.Load() {
		sl.expired.Store(binary.BigEndian.Uint32(s.other[8:]))
	}
	if sl.generation != 1<<32-1 { // after its last generation a slot is never used again
		b.free = append(b.free, index)
	}
}

// Find returns the state of a stateid that is not special. c is the client that sent the request;
// nil in minor version 0, where the stateid itself identifies the client. From minor version 1 on, a
// Seqid of 0 means the current one. Find takes no lock.
func (m *Manager) Find(id *StateID, c *Client) (*State, Verdict) {
	s, verdict := m.named(id, c)
	if verdict != Granted {
		return nil, verdict
	}
	if verdict = s.current(id, c); verdict != Granted {
		return nil, verdict
	}
	return s, Granted
}

// current returns Granted if id has the current seqid of s. The caller has checked that id names s.
func (s *State) current(id *StateID, c *Client) Verdict {
	switch now := s.seqid.Load(); {
	case s.isRevoked():
		return RevokedID
	case s.Kind == KindOpen && s.opened.Load() == nil:
		// The state was closed. Its stateid is known only for a repeated CLOSE.
		return UnknownID
	case id.Seqid == now, id.Seqid == 0 && c != nil:
		return Granted
	case older(id.Seqid, now):
		return OldID
	}
	return UnknownID
}

// A seqid above 1<<32-1-wrap is older than a seqid below wrap, which has wrapped around. wrap is larger
// than the number of requests that can be under way at once (RFC 8881 §8.2.2).
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

// named is Find without the check of the seqid.
func (m *Manager) named(id *StateID, c *Client) (*State, Verdict) {
	if IsSpecial(id) {
		return nil, UnknownID
	}
	b := &m.files.slab
	if binary.BigEndian.Uint32(id.Other[0:]) != m.epoch {
		return nil, FormerID
	}
	sl := b.slot(slotOf(&id.Other))
	if sl == nil {
		return nil, UnknownID
	}
	s := sl.state.Load()
	switch {
	case s != nil && s.other == id.Other && (s.Client == c || c == nil && s.Client.secretID()):
		switch {
		case !s.Client.known.ending.Load():
			return s, Granted
		case c == nil:
			return nil, ExpiredID // as when s has ended: others may have got some of its locks already
		}
	case c == nil && sl.expired.Load() == binary.BigEndian.Uint32(id.Other[8:]):
		return nil, ExpiredID
	}
	return nil, UnknownID
}

// A scrambler maps counters, one to one, to numbers that cannot be guessed from earlier ones.
type scrambler struct{ seed maphash.Seed }

// of maps n, which has this even number of bits, to another such number by a Feistel network of four
// rounds. Each kind has its own.
func (s *scrambler) of(kind uint32, n uint64, bits uint) uint64 {
	half := bits / 2
	mask := uint64(1)<<half - 1
	left, right := n>>half, n&mask
	for round := range uint32(4) {
		h := maphash.Comparable(s.seed, [3]uint32{kind, round, uint32(right)})
		left, right = right, (left^h)&mask
	}
	return left<<half | right
}
