package state

import (
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/byterange"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A FileKey names a file as one file system shows it. Other file systems may show the same file.
type FileKey struct {
	// Domain identifies the file system: see DomainOf.
	Domain any
	Handle vfs.Handle
}

// DomainOf returns the identity of a file system: the innermost file system inside all wrappers.
// Two exports of one file system have the same identity.
func DomainOf(fs vfs.FileSystem) any {
	for {
		w, ok := fs.(vfs.Wrapper)
		if !ok {
			return fs
		}
		fs = w.Unwrap()
	}
}

// A fileID names a file, whichever file system shows it.
type fileID struct {
	volume any // vfs.Shared's Volume, or the file system itself if it is not a vfs.Shared
	handle vfs.Handle
}

// id returns the fileID of a key. The caller does not hold Manager.mu, because id calls the file
// system.
func (k *FileKey) id() fileID {
	if s, ok := k.Domain.(vfs.Shared); ok {
		return fileID{s.Volume(), k.Handle}
	}
	return fileID{k.Domain, k.Handle}
}

// files holds all open files.
type files struct {
	slab
	denials denials
	notify  atomic.Pointer[func(LockNotice)]

	// Manager.mu guards the fields below.

	byID        map[fileID]*file
	claims      map[FileKey]*localClaim
	usage       usage
	unconfirmed waitingOwners
	// searches counts how often the method released searched a file's waiters. Tests read it.
	searches uint64
}

// A file represents a file that a client has open. The Manager has one for each file, even if
// several file systems show it, because opens through different file systems may conflict with each
// other, and so may locks.
type file struct {
	id      fileID
	opens   opens
	locked  byterange.Table[*State]
	waiting []*waiter
	held    lockCount // locks of all clients in the file
	// The map by holds the lock counts of each *Client and of each *origin (address).
	by map[any]lockCount
}

// A shown is a file together with the file system (its domain) through which clients reach it.
type shown struct {
	file   *file
	domain any
}

// file finds or makes the file with this ID.
func (f *files) file(id fileID) *file {
	of := f.byID[id]
	if of == nil {
		if f.byID == nil {
			f.byID = make(map[fileID]*file)
		}
		of = &file{id: id}
		f.byID[id] = of
	}
	return of
}

// tidy updates the entry of the file in files.denials: the accesses that its opens deny. If the
// file has no opens left, tidy forgets it.
func (m *Manager) tidy(of *file) {
	m.files.denials.set(of.id, of.opens.denied())
	if len(of.opens) == 0 {
		of.unqueue(m, func(*waiter) bool { return true })
		delete(m.files.byID, of.id)
	}
}

// holdings is the state of one client.
type holdings struct {
	// over is true if the client is gone. The Manager then grants it nothing.
	over                   bool
	states                 map[*State]struct{}
	revoked                map[*State]struct{} // revoked states that the client has not acknowledged
	openOwners, lockOwners map[string]*Owner
	idle                   []*Owner
	waiting                map[*file]int // number of locks that it waits for in each file
	waiters                int           // number of locks that it waits for in all files
	ranges                 int           // locked ranges
	memory                 int           // memory of all this state, in bytes
}

// holds reports whether c holds any state. The caller holds m.mu.
func (m *Manager) holds(c *Client) bool { return len(c.holding.states) > 0 }

// dropAll removes all state of c for ever. The caller holds m.mu. After it has released m.mu, it
// calls the returned function, which closes files and gives up local claims.
func (m *Manager) dropAll(c *Client) (after func()) {
	var l leftovers
	c.holding.over = true
	unlocked := make(map[*file]bool)
	for s := range c.holding.states {
		if s.Kind == KindOpen {
			if len(s.locks) > 0 {
				unlocked[s.file] = true
			}
			m.endOpen(s, true, &l)
		}
	}
	for _, owners := range [...]map[string]*Owner{c.holding.openOwners, c.holding.lockOwners} {
		for _, o := range owners {
			m.forgetOwner(o)
		}
	}
	for s := range c.holding.revoked {
		m.files.slab.remove(s, true)
		m.charge(c, -s.size())
	}
	c.holding.revoked = nil
	for of := range c.holding.waiting {
		of.unqueue(m, func(w *waiter) bool { return w.client == c })
	}
	for of := range unlocked {
		m.released(of, &l)
	}
	c.holding.idle = nil
	return func() { m.finish(&l) }
}

// leftovers is the work to do after Manager.mu is released.
type leftovers struct {
	files []vfs.File
	// claims are the local claims of files in which locks ended, with the byte ranges of these
	// locks.
	claims  map[*localClaim][]byterange.Range
	notices []LockNotice
}

func (l *leftovers) close(f vfs.File) {
	if f != nil {
		l.files = append(l.files, f)
	}
}

// giveUp adds to l the dropped ranges of a file, which are no longer locked, so that finish gives
// up the local claims on them. The caller holds m.mu.
func (l *leftovers) giveUp(m *Manager, key FileKey, dropped []byterange.Range) {
	c := m.files.claims[key]
	if c == nil || len(dropped) == 0 {
		return
	}
	if l.claims == nil {
		l.claims = make(map[*localClaim][]byterange.Range)
	}
	if l.claims[c] == nil {
		c.users++
	}
	l.claims[c] = append(l.claims[c], dropped...)
}

// finish does the work in l. The caller does not hold m.mu.
func (m *Manager) finish(l *leftovers) {
	for c, dropped := range l.claims {
		m.giveUp(c, dropped)
	}
	for _, f := range l.files {
		f.Close()
	}
	if notify := m.files.notify.Load(); notify != nil {
		for _, n := range l.notices {
			(*notify)(n)
		}
	}
}

// drop ends an open and all locks made through it.
func (m *Manager) drop(s *State, l *leftovers) {
	of, locked := s.file, len(s.locks) > 0
	m.endOpen(s, false, l)
	if locked {
		m.released(of, l)
	}
}

// endOpen ends an open and all locks made through it. Unlike drop, it does not call released: a
// caller that ends many opens calls released once, afterwards. expired is true if the open ends
// because its client is being removed.
func (m *Manager) endOpen(s *State, expired bool, l *leftovers) {
	of := s.file
	for _, lock := range s.locks {
		m.endLock(lock, expired, l)
	}
	of.opens.remove(s)
	m.unlist(s, expired)
	if o := s.opened.Swap(nil); o != nil {
		for i := range o.grants {
			l.close(o.grants[i].file)
		}
	}
	m.files.usage.opens--
	m.tidy(of)
}

// endLock ends a lock stateid with all its ranges. If s had locked any range, the caller calls
// released afterwards.
func (m *Manager) endLock(s *State, expired bool, l *leftovers) {
	l.giveUp(m, s.Key, s.held.Ranges())
	m.counted(s, s.file.locked.Unlock(&s.held, 0, byterange.ToEnd))
	s.held = byterange.Holder[*State]{}
	delete(s.open.locks, s.Owner)
	s.file.count(s.Client, lockCount{locks: -1})
	m.unlist(s, expired)
	m.files.usage.locks--
}

// unlist removes s from all tables. Two kinds of stateids stay known for a while: revoked ones (see
// retain), and the last one that an owner of minor version 0 closed (see outlive).
func (m *Manager) unlist(s *State, expired bool) {
	revoked := s.revoked.Load()
	switch {
	case revoked:
		m.retain(s)
	case s.Kind == KindOpen && s.Client.Minor == 0 && !expired:
		m.outlive(s.Owner, s)
	default:
		m.files.slab.remove(s, expired)
	}
	delete(s.Client.holding.states, s)
	if s.Kind == KindOpen {
		s.Client.known.origin.files.remove(s.shown())
	}
	if !revoked {
		m.charge(s.Client, -s.size())
	}
	m.left(s.Owner, s)
	s.file = nil
}

// enlist gives s a stateid and adds it to the tables of its client, of its owner and of the file.
// It returns false if no stateid is free.
func (m *Manager) enlist(s *State, of *file) bool {
	if !m.files.slab.add(s, m.epoch) {
		return false
	}
	s.file = of
	if s.Kind == KindOpen {
		of.opens.add(s)
		s.Client.known.origin.files.add(s.shown())
	} else {
		of.count(s.Client, lockCount{locks: 1})
	}
	h := &s.Client.holding
	if h.states == nil {
		h.states = make(map[*State]struct{})
	}
	h.states[s] = struct{}{}
	m.charge(s.Client, s.size())
	m.joined(s.Owner, s)
	return true
}

// shown returns the key of s in Owner.states: the file, and the file system through which s has it
// open.
func (s *State) shown() shown { return shown{s.file, s.Key.Domain} }

// size returns the memory of s without its ranges, in bytes.
func (s *State) size() int {
	if s.Kind == KindOpen {
		return sizeState + sizeFile
	}
	return sizeState
}

// mayBegin returns NFS4_OK if the Manager may grant c state, or else the status to answer. A client
// that is being evicted gets no state, because the eviction is about to end all its state.
func mayBegin(c *Client) Status {
	switch {
	case c.holding.over:
		return gone(c)
	case c.Dying():
		return nfs4wire.NFS4ErrDelay // the eviction may still fail
	}
	return nfs4wire.NFS4OK
}

// gone returns the status for a client that no longer exists. From minor version 1 on it is
// NFS4ERR_DELAY: the client's next SEQUENCE reports that the client is gone.
func gone(c *Client) Status {
	if c.Minor == 0 {
		return nfs4wire.NFS4ErrStaleClientID
	}
	return nfs4wire.NFS4ErrDelay
}
