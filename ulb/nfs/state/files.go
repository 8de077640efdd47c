package state

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/fair"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/byterange"
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

// id returns the fileID of a key. It calls the file system, so the caller does not hold Manager.mu.
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
	// notifyHosts is the same for waiters of hosts.
	notifyHosts atomic.Pointer[func(LockNotice)]

	// Manager.mu guards the fields below.

	byID   map[fileID]*file
	claims map[FileKey]*localClaim
	usage  Usage                       // without Files and Memory
	memory fair.Tree[*Client]          // bytes of state
	open   map[any]*fair.Tree[*origin] // open files of each file system (its domain), by address
	// unconfirmed maps each unconfirmed open-owner of minor version 0 that has opens to the time of
	// its last OPEN, on the clock of Manager.now.
	unconfirmed map[*Owner]time.Duration
	// searches counts how often the method released searched a file's waiters. Tests read it.
	searches uint64
	// did tells what all calls of a piecewise did together. Tests read it.
	did pieces
}

// A file is a file that a client has open. There is one for each file, even if several file systems
// show it, because opens and locks through different file systems may conflict with each other.
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

// A place is a shown by one export. An owner has an open of its own in each, which clients take for
// different files.
type place struct {
	shown
	export uint32
}

// tidy updates files.denials after a change of a file's opens, and forgets a file without opens.
func (g *guard) tidy(of *file) {
	g.files.denials.set(of.id, of.opens.denied())
	if len(of.opens) == 0 {
		of.unqueue(g, func(*waiter) bool { return true })
		delete(g.files.byID, of.id)
	}
}

// holdings is the state of one client.
type holdings struct {
	states  map[*State]struct{}
	revoked map[*State]struct{} // revoked states that the client has not acknowledged
	lost    time.Duration       // when the latest of them was revoked
	owners  map[ownerKey]*Owner
	idle    []*Owner
	waiting map[*file]int      // number of locks that it waits for in each file
	waiters int                // number of locks that it waits for in all files
	ranges  int                // locked ranges
	place   fair.Node[*Client] // memory of all this state: its place in files.memory
}

// holds reports whether c holds any state.
func (g *guard) holds(c *Client) bool { return len(c.holding.states) > 0 }

// Holds reports whether c has opens or locks.
func (m *Manager) Holds(c *Client) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(c.holding.states) > 0
}

// drop ends an open and all locks made through it.
func (g *guard) drop(s *State) {
	of, hinders := s.file, len(s.locks) > 0 || s.waiters > 0
	g.endOpen(s)
	if hinders {
		g.released(of)
	}
}

// endOpen is drop without released, which a caller that ends many opens calls once, afterwards.
func (g *guard) endOpen(s *State) {
	of := s.file
	for _, lock := range s.locks {
		g.endLock(lock)
	}
	if s.waiters > 0 {
		of.unqueue(g, func(w *waiter) bool { return w.open == s })
	}
	of.opens.remove(s)
	g.unlist(s)
	if o := s.opened.Swap(nil); o != nil {
		for i := range o.grants {
			g.close(o.grants[i].file)
		}
	}
	g.files.usage.Opens--
	g.tidy(of)
}

// endLock ends a lock stateid with all its ranges. The caller calls released afterwards if it had any.
func (g *guard) endLock(s *State) {
	g.giveUpLater(s.Key, s.held.Ranges())
	g.counted(s, s.file.locked.Unlock(&s.held, 0, byterange.ToEnd))
	s.held = byterange.Holder[*State]{}
	delete(s.open.locks, s.Owner)
	s.file.count(s.Client, lockCount{locks: -1})
	g.unlist(s)
	g.files.usage.Locks--
	if s.Client.isHost() {
		g.idle = append(g.idle, s.open)
	}
}

// unlist removes s from all tables. A revoked stateid stays known until its client frees it or is gone,
// and the last one that an owner of minor version 0 closed until it closes another one (outlive).
func (g *guard) unlist(s *State) {
	revoked := s.isRevoked()
	if revoked && s.Client.isHost() { // it knows no stateids, so it never frees one
		revoked = false
		s.Client.known.reclaim.untold = s.Client.known.reclaim.untold || s.Kind == KindLock || !s.carriesOnly()
	}
	switch {
	case revoked:
		s.Client.holding.revoked[s], s.Client.holding.lost = struct{}{}, g.now()
		s.Client.known.hasRevoked.Store(true)
	case s.Kind == KindOpen && s.Client.numbered() && !s.Client.known.ending.Load():
		g.outlive(s.Owner, s)
	default:
		g.files.slab.remove(s)
	}
	delete(s.Client.holding.states, s)
	o := s.Owner
	if s.Kind == KindOpen {
		s.Client.known.origin.files.remove(&g.files, s.shown())
		delete(o.states, s.place())
	} else {
		delete(o.own, s)
	}
	if g.charge(s.Client, -s.size()); revoked {
		g.chargeRevoked(s.Client, 1)
	}
	switch {
	case o.holds():
	case !o.Client.numbered():
		g.forgetOwner(o)
	default: // the client may repeat its last request, so the owner stays until prune forgets it
		g.rest(o)
	}
	s.file = nil
}

// enlist gives s a stateid and adds it to all tables. It returns false if no stateid is free.
func (g *guard) enlist(s *State, of *file) bool {
	if !g.files.slab.add(s, g.epoch) {
		return false
	}
	s.file = of
	if o := s.Owner; s.Kind == KindOpen {
		of.opens.add(s)
		s.Client.known.origin.files.add(&g.files, s.Client, s.shown())
		if o.states == nil {
			o.states = make(map[place]*State)
		}
		o.states[s.place()] = s
	} else {
		of.count(s.Client, lockCount{locks: 1})
		if o.own == nil {
			o.own = make(map[*State]struct{})
		}
		o.own[s] = struct{}{}
	}
	s.Client.holding.states[s] = struct{}{}
	g.charge(s.Client, s.size())
	return true
}

// shown returns the key of s in openFiles, and place that in Owner.states.
func (s *State) shown() shown { return shown{s.file, s.Key.Domain} }
func (s *State) place() place { return place{s.shown(), s.Export} }

// size returns the memory of s without its ranges, in bytes.
func (s *State) size() int {
	if s.Kind == KindOpen {
		return sizeState + sizeFile
	}
	return sizeState
}

// charge adds n bytes, perhaps negative, to the memory of c, of its address, of its site and of all clients.
func (g *guard) charge(c *Client, n int) { g.files.memory.Add(&c.holding.place, int64(n), 0) }

// chargeRevoked adds n revoked stateids, perhaps a negative number, to the memory of c. They are surplus: the server
// forgets them before it takes an open (toTake).
func (g *guard) chargeRevoked(c *Client, n int) {
	g.files.memory.Add(&c.holding.place, int64(n*sizeRevoked), int64(n*sizeRevoked))
}

// memory returns the memory of the client's state, in bytes.
func (c *Client) memory() int { return int(c.holding.place.Held()) }

// An Owner is an open-owner or a lock-owner of a client, usually a process on its machine.
type Owner struct {
	Client *Client

	key ownerKey
	// confirmed is false for an open-owner of minor version 0 until its first OPEN is confirmed.
	confirmed atomic.Bool
	// once and kept: see Kept. working: see Works. abandoned: see Abandoned.
	once      sync.Once
	kept      any
	working   atomic.Bool
	abandoned atomic.Uint32

	// Manager.mu guards the fields below.

	known  bool                // true while the client's tables contain the owner
	states map[place]*State    // opens of an open-owner, by file and export
	own    map[*State]struct{} // lock states of a lock-owner
	idle   time.Time           // when the owner lost its last state, or was created
	// closed is the state that the owner's latest CLOSE ended, in minor version 0. Its stateid
	// stays known until the next CLOSE, because the client may repeat the CLOSE.
	closed *State
}

// An ownerKey identifies an owner of one client. An open-owner and a lock-owner may share a name.
type ownerKey struct {
	locks bool // it is a lock-owner
	name  string
}

// Name is the client's name for the owner.
func (o *Owner) Name() string { return o.key.name }

// Confirmed reports whether the client may use the owner's stateids.
func (o *Owner) Confirmed() bool { return o.confirmed.Load() }

// owner finds or makes the owner of c with this name: a lock-owner if locks is true, else an
// open-owner. It returns nil if c is gone. The caller has called crowded.
func (g *guard) owner(c *Client, name []byte, locks bool) *Owner {
	if o := c.holding.owners[ownerKey{locks, string(name)}]; o != nil {
		return o
	}
	g.prune(c)
	if c.known.gone {
		return nil
	}
	o := &Owner{Client: c, key: ownerKey{locks, string(name)}, known: true}
	o.confirmed.Store(locks || !c.numbered())
	c.holding.owners[o.key] = o
	g.files.usage.Owners++
	g.charge(c, o.size())
	g.rest(o)
	return o
}

// size returns the memory of o, in bytes.
func (o *Owner) size() int {
	if o.Client.numbered() {
		return sizeOwner + sizeNumbered + len(o.key.name)
	}
	return sizeOwner + len(o.key.name)
}

func (o *Owner) holds() bool { return len(o.own) > 0 || len(o.states) > 0 }

// rest stores that o holds no state from now on. In minor version 0 prune forgets o later.
func (g *guard) rest(o *Owner) {
	if o.Client.numbered() && o.idle.IsZero() {
		h := &o.Client.holding
		h.idle = append(h.idle, o)
	}
	o.idle = time.Now()
}

// prune forgets owners of c, with their last replies, that have held no state for longer than a lease
// (RFC 7530 §9.1.10). While c can get no more state (crowded), it forgets them even earlier, the
// longest idle first.
func (g *guard) prune(c *Client) {
	h := &c.holding
	for n := len(h.idle); n > 0; n-- {
		o := h.idle[0]
		long := time.Since(o.idle) > g.cfg.Lease || g.crowded(c)
		if !o.holds() && !o.working.Load() && !long {
			return // the later ones in the list became idle later
		}
		h.idle[0] = nil
		h.idle = h.idle[1:]
		switch {
		case o.holds():
			o.idle = time.Time{} // the next call of rest appends o to the list again
		case o.working.Load():
			h.idle = append(h.idle, o)
		default:
			g.forgetOwner(o)
		}
	}
}

func (g *guard) forgetOwner(o *Owner) {
	if !o.known {
		return
	}
	o.known = false
	delete(g.files.unconfirmed, o)
	g.outlive(o, nil)
	delete(o.Client.holding.owners, o.key)
	g.files.usage.Owners--
	g.charge(o.Client, -o.size())
}

// outlive keeps the stateid of s, which a CLOSE has just ended, for a repeated CLOSE, in place of the
// one that it kept before. If s is nil, it keeps none.
func (g *guard) outlive(o *Owner, s *State) {
	if o.closed != nil {
		g.files.slab.remove(o.closed)
	}
	o.closed = s
}
