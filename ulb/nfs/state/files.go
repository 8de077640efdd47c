package state

import (
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A FileKey names a file as a file system shows it. Others may show it too.
type FileKey struct {
	// Domain tells file systems apart: see DomainOf.
	Domain any
	Handle vfs.Handle
}

// DomainOf is what tells fs from other file systems: the one behind all that stand
// before it. Two exports of one file system share it.
func DomainOf(fs vfs.FileSystem) any {
	for {
		w, ok := fs.(vfs.Wrapper)
		if !ok {
			return fs
		}
		fs = w.Unwrap()
	}
}

// A fileID names a file among those of all file systems, whichever of them shows it.
type fileID struct {
	volume any // see vfs.Shared; of a file system without one, it is that itself
	handle vfs.Handle
}

func (k *FileKey) id() fileID {
	if s, ok := k.Domain.(vfs.Shared); ok {
		return fileID{s.Volume(), k.Handle}
	}
	return fileID{k.Domain, k.Handle}
}

// files are all files that are open, or have a part locked.
type files struct {
	slab
	denials denials
	notify  atomic.Pointer[func(LockNotice)]

	// What follows is guarded by Manager.mu.

	byID        map[fileID]*file
	claims      map[FileKey]*localClaim
	usage       usage
	unconfirmed waitingOwners
	// searches is how often those who wait for locks were looked for.
	searches uint64
}

// A file is one that a client has open, by whatever file system. Its opens exclude one
// another, and so do its locks.
type file struct {
	id      fileID
	opens   opens
	locked  locked
	waiting []*waiter
	held    lockCount // by all clients
	// by is what each Client has locked, and the clients of each origin.
	by map[any]lockCount
}

// A shown is a file as one file system shows it.
type shown struct {
	file   *file
	domain any
}

// file finds or makes the file of a key.
func (f *files) file(key FileKey) *file {
	id := key.id()
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

// tidy forgets a file that is not open any more, and makes known what is denied.
func (m *Manager) tidy(of *file) {
	m.files.denials.set(of.id, of.opens.denied())
	if len(of.opens) == 0 {
		of.unqueue(m, func(*waiter) bool { return true })
		delete(m.files.byID, of.id)
	}
}

// holdings are what one client holds.
type holdings struct {
	// over: the client is gone, and gets nothing any more.
	over                   bool
	states                 map[*State]struct{}
	revoked                map[*State]struct{} // which the client does not know of yet
	openOwners, lockOwners map[string]*Owner
	idle                   []*Owner
	waiting                map[*file]int // for locks
	waiters                int           // in all
	ranges                 int           // that are locked
	memory                 int           // that all of it takes, in bytes
}

// holds says whether c holds anything. It is called with m.mu held.
func (m *Manager) holds(c *Client) bool { return len(c.holding.states) > 0 }

// dropAll takes away all that c holds, for ever: c gets nothing any more. It is called
// with m.mu held; what it returns is called after the mutex was let go: it closes files
// and gives up claims.
func (m *Manager) dropAll(c *Client) (after func()) {
	var l leftovers
	c.holding.over = true
	unlocked := make(map[*file]bool)
	for s := range c.holding.states {
		if s.Kind == KindOpen {
			if len(s.locks) > 0 {
				unlocked[s.file] = true
			}
			m.end(s, true, &l)
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

// leftovers are what has to be done when the mutex was let go.
type leftovers struct {
	files []vfs.File
	// claims are those of files of which locks were dropped, with what those locked.
	claims  map[*localClaim][]byteRange
	notices []LockNotice
}

func (l *leftovers) close(f vfs.File) {
	if f != nil {
		l.files = append(l.files, f)
	}
}

// giveUp notes that ranges of a file were dropped. It is called with m.mu held.
func (l *leftovers) giveUp(m *Manager, key FileKey, dropped ranges) {
	c := m.files.claims[key]
	if c == nil || len(dropped) == 0 {
		return
	}
	if l.claims == nil {
		l.claims = make(map[*localClaim][]byteRange)
	}
	if l.claims[c] == nil {
		c.users++
	}
	l.claims[c] = append(l.claims[c], dropped...)
}

// finish does what is left over. It is called without the mutex.
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

// drop ends an open with the locks that go with it.
func (m *Manager) drop(s *State, l *leftovers) {
	of, locked := s.file, len(s.locks) > 0
	m.end(s, false, l)
	if locked {
		m.released(of, l)
	}
}

// end is drop, but for those who wait for what was locked: however many locks end, they are
// looked at once. expired: the open was taken away for want of a lease.
func (m *Manager) end(s *State, expired bool, l *leftovers) {
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

// endLock ends a lock's state with all its ranges. Those who wait for them are looked at by
// the caller.
func (m *Manager) endLock(s *State, expired bool, l *leftovers) {
	l.giveUp(m, s.Key, s.ranges)
	m.relock(s, byteRange{last: vfs.ToEnd}, func(ranges) ranges { return nil })
	delete(s.open.locks, s.Owner)
	s.file.count(s.Client, lockCount{locks: -1})
	m.unlist(s, expired)
	m.files.usage.locks--
}

// unlist takes s out of all that leads to it.
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

// enlist makes s, which is complete but for its stateid, a state of file of. It is
// false where there is no room.
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

// shown is the file of s, by the file system that s is open in.
func (s *State) shown() shown { return shown{s.file, s.Key.Domain} }

// size is what s takes, without its ranges, in bytes.
func (s *State) size() int {
	if s.Kind == KindOpen {
		return sizeState + sizeFile
	}
	return sizeState
}

// mayBegin says whether a client may be given something: one that is about to go may not,
// for what it held is another's already.
func mayBegin(c *Client) Status {
	switch {
	case c.holding.over:
		return gone(c)
	case c.Dying():
		return nfs4wire.NFS4ErrDelay // it may stay
	}
	return nfs4wire.NFS4OK
}

// gone is what a client is answered that is not one any more. From minor version 1 on
// its next SEQUENCE will say so.
func gone(c *Client) Status {
	if c.Minor == 0 {
		return nfs4wire.NFS4ErrStaleClientID
	}
	return nfs4wire.NFS4ErrDelay
}
