package state

import (
	"errors"
	"hash/maphash"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/internal/clientaddr"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// ErrDenied: a client has opened the file with a deny mode that forbids this use.
var ErrDenied = errors.New("state: an open of the file denies this")

// ErrGrace: a client may still claim an open from before the restart that forbids this use.
var ErrGrace = errors.New("state: a client may still claim an open of the file that denies this")

// A Use is an intended use of a file by a caller that has not opened it.
type Use uint8

// Kinds of Use.
const (
	// UseRead and UseWrite concern the content; UseWrite concerns the size as well.
	UseRead Use = iota
	UseWrite
	// UseRemove removes one of the file's names: by a removal, or by a rename onto it.
	UseRemove
)

// deniedBy is the deny bit that forbids each Use. A file opened with deny-write keeps its name as
// well (RFC 8881 §18.25.4).
var deniedBy = [...]Access{UseRead: AccessRead, UseWrite: AccessWrite, UseRemove: AccessWrite}

// Guard returns ErrDenied if an open denies a caller without an open this use of file h of fs,
// else nil. Operations of NFSv3, and of NFSv4 with a special stateid, call it. While a
// client may still claim an open with a deny mode, it returns ErrGrace (RFC 8881 §8.4.2.1). It costs
// one atomic load as long as no open denies anything. Clients whose leases ran out deny nothing:
// Guard evicts them, which waits for the disk. With try it returns vfs.ErrWouldBlock instead.
func (m *Manager) Guard(fs vfs.FileSystem, h vfs.Handle, use Use, try bool) error {
	return m.guard(fs, h, use, nil, try)
}

// GuardOpen is Guard for a caller that has opened the file as s, but not for this use. The
// denials of s itself do not count.
func (m *Manager) GuardOpen(s *State, fs vfs.FileSystem, h vfs.Handle, use Use, try bool) error {
	if s.Kind == KindLock {
		s = s.open
	}
	return m.guard(fs, h, use, func(other *State) bool { return other == s }, try)
}

// GuardName is Guard with UseRemove for a caller at an address. Denials by clients of the same
// address do not count: a machine may remove a file that it has open itself. (Linux's server lets
// every machine do so.)
func (m *Manager) GuardName(fs vfs.FileSystem, h vfs.Handle, from netip.Addr, try bool) error {
	client := clientaddr.Of(from)
	return m.guard(fs, h, UseRemove, func(s *State) bool { return slices.Contains(s.Client.known.met, client) }, try)
}

func (m *Manager) guard(fs vfs.FileSystem, h vfs.Handle, use Use, exempt func(*State) bool, try bool) error {
	d := &m.files.denials
	switch {
	case d.all.Load() == 0:
		return nil
	case m.grace.denials.Load() > 0:
		return ErrGrace
	}
	key := FileKey{DomainOf(fs), h}
	for id := key.id(); d.of(id)&deniedBy[use] != 0; {
		late := m.deniers(id, deniedBy[use], exempt)
		switch {
		case late.firm:
			return ErrDenied
		case len(late.clients) == 0: // the last denial has just ended, or is exempt
			return nil
		case try:
			return vfs.ErrWouldBlock
		case !m.expel(late.clients):
			return ErrDenied
		}
	}
	return nil
}

// deniers returns the clients whose opens deny this access to a file. Opens for which exempt is
// true do not count.
func (m *Manager) deniers(id fileID, how Access, exempt func(*State) bool) (late courtesy) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if of := m.files.byID[id]; of != nil {
		of.opens.each(0, how, func(s *State) bool {
			if exempt == nil || !exempt(s) {
				late.blame(m, s.Client)
			}
			return !late.firm
		})
	}
	return late
}

// Guards reports whether any file has a denial or may get one by a claim. If it returns false, Guard would return nil
// for every file, and the caller need not look up the file.
func (m *Manager) Guards() bool { return m.files.denials.all.Load() != 0 }

// denials holds the denied accesses of all files that are open with a deny mode. Readers do not
// take Manager.mu; writers hold it.
type denials struct {
	// all counts the files with a denial, and the clients that grace.denials counts.
	all    atomic.Int64
	seed   maphash.Seed
	once   sync.Once
	shards [16]struct {
		mu   sync.RWMutex
		deny map[fileID]Access
	}
}

func (d *denials) shard(id fileID) int {
	d.once.Do(func() { d.seed = maphash.MakeSeed() })
	return int(maphash.Bytes(d.seed, id.handle.Bytes()) % uint64(len(d.shards)))
}

func (d *denials) of(id fileID) Access {
	s := &d.shards[d.shard(id)]
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.deny[id]
}

// set stores the accesses that the opens of a file deny.
func (d *denials) set(id fileID, deny Access) {
	if deny == 0 && d.all.Load() == 0 {
		return
	}
	s := &d.shards[d.shard(id)]
	s.mu.Lock()
	defer s.mu.Unlock()
	_, was := s.deny[id]
	switch {
	case deny != 0:
		if s.deny == nil {
			s.deny = make(map[fileID]Access)
		}
		s.deny[id] = deny
		if !was {
			d.all.Add(1)
		}
	case was:
		delete(s.deny, id)
		d.all.Add(-1)
	}
}
