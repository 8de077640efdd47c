package state

import (
	"errors"
	"hash/maphash"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/internal/census"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// ErrDenied: an open of the file denies this to others.
var ErrDenied = errors.New("state: an open of the file denies this")

// A Use is what is about to be done with a file by a client that has not opened it.
type Use uint8

// Kinds of Use.
const (
	// UseRead and UseWrite are about its content, UseWrite about its size as well.
	UseRead Use = iota
	UseWrite
	// UseRemove is the end of one of its names, by a removal or under a rename.
	UseRemove
)

// deniedBy is the deny mode that keeps others from each Use. What is open so that
// others must not write to it keeps its name (RFC 8881 §18.25.4).
var deniedBy = [...]Access{UseRead: AccessRead, UseWrite: AccessWrite, UseRemove: AccessWrite}

// Guard says whether a caller without an open of file h of fs may use it: ErrDenied, or
// nil. Operations of NFSv3, and of NFSv4 with a special stateid, ask it. As long as
// nothing is denied it costs one load. Clients whose leases ran out deny nothing:
// they are evicted, which waits for the disk; with try that is vfs.ErrWouldBlock.
func (m *Manager) Guard(fs vfs.FileSystem, h vfs.Handle, use Use, try bool) error {
	return m.guard(fs, h, use, nil, try)
}

// GuardOpen is Guard for a caller that has opened the file as s, and not for this use.
// What s denies to others does not count.
func (m *Manager) GuardOpen(s *State, fs vfs.FileSystem, h vfs.Handle, use Use, try bool) error {
	if s.Kind == KindLock {
		s = s.open
	}
	return m.guard(fs, h, use, func(other *State) bool { return other == s }, try)
}

// GuardName is Guard of UseRemove for a caller at an address. What clients of the same
// address deny does not count: a machine may take away what it has open itself, as with
// Linux's server every machine may.
func (m *Manager) GuardName(fs vfs.FileSystem, h vfs.Handle, from netip.Addr, try bool) error {
	client := census.Client(from)
	return m.guard(fs, h, UseRemove, func(s *State) bool { return slices.Contains(s.Client.known.met, client) }, try)
}

func (m *Manager) guard(fs vfs.FileSystem, h vfs.Handle, use Use, exempt func(*State) bool, try bool) error {
	d := &m.files.denials
	if d.files.Load() == 0 {
		return nil
	}
	key := FileKey{DomainOf(fs), h}
	for id := key.id(); d.of(id)&deniedBy[use] != 0; {
		late := m.deniers(id, deniedBy[use], exempt)
		switch {
		case late.firm:
			return ErrDenied
		case len(late.clients) == 0: // the last has just gone, or does not count
			return nil
		case try:
			return vfs.ErrWouldBlock
		case !m.expel(late.clients):
			return ErrDenied
		}
	}
	return nil
}

// deniers are the clients that keep others from a file in the way given, by opens that are
// not exempt.
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

// Guards says whether anything is denied at all: otherwise Guard answers nil for every
// file, and a caller that would have to look one up can do without.
func (m *Manager) Guards() bool { return m.files.denials.files.Load() != 0 }

// denials are the files that are open with a deny mode. They are read without
// Manager.mu, and changed under it.
type denials struct {
	files  atomic.Int64
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

// set makes deny what is denied of a file.
func (d *denials) set(id fileID, deny Access) {
	if deny == 0 && d.files.Load() == 0 {
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
			d.files.Add(1)
		}
	case was:
		delete(s.deny, id)
		d.files.Add(-1)
	}
}
