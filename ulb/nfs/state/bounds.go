package state

import (
	"time"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

const (
	// maxFileRanges is the largest number of locked ranges in one file, and maxFileLocks that of its
	// lock stateids. The function part returns how many of these a single client may have.
	maxFileRanges = 1 << 16
	maxFileLocks  = 1 << 16
	// maxFileClaims is the largest number of locked ranges of a file that the Manager claims one by
	// one (localClaim). One claim covers more, because the kernel walks over all claims for each new one.
	maxFileClaims = 1 << 10
	// maxFileWaiters is the largest number of waiters of one file, and maxWaiters the largest
	// number in all. Beyond these limits a client gets no LockNotice: it has to repeat its LOCK.
	maxFileWaiters = 1 << 10
	maxWaiters     = 1 << 16
	// maxHindrances is the largest number of locks and other waiters that the Manager checks each
	// time that a lock in a file becomes free. The waiters that it did not reach get no LockNotice.
	maxHindrances = 1 << 14
)

// floors is a divisor: Config.Memory/floors is the fair.Tree.Floor of the memory. The clients of a site keep opens
// and locks of that size, however many sites there are.
const floors = 1 << 10

// Usage is how much state all clients hold.
type Usage struct {
	// Opens and Locks count stateids, Ranges locked byte ranges, Files open files, Waiters denied locks.
	Opens, Locks, Owners, Ranges, Files, Waiters int
	// Memory is the approximate memory of all this state, in bytes.
	Memory int
}

// The memory that one item of each kind of state takes, in bytes: a little more than was measured.
const (
	sizeState = 768
	sizeOwner = 512
	// sizeNumbered is for the last reply, and the open closed last, of an owner of minor version 0.
	sizeNumbered = 1 << 10
	// sizeRange includes the kernel's memory for the local claim on the range, if there is one.
	sizeRange = 352
	// sizeRevoked is for a revoked stateid that the client has not freed.
	sizeRevoked = 448
	sizeFile    = 448
	sizeWaiter  = 256
)

// Usage returns how much state all clients hold.
func (m *Manager) Usage() Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.files.usage
	n.Files, n.Memory = len(m.files.byID), int(m.files.memory.Held())
	return n
}

// maxName is the longest name of a client or an owner, in bytes.
const maxName = 1024

// sizeMost is the most memory that one request for state takes, in bytes, but for further ranges: an open
// with an owner of minor version 0 and the longest name.
const sizeMost = sizeState + sizeFile + sizeOwner + sizeNumbered + maxName

// hasRoom reports whether the memory has room for more state of c (fair.Tree.May).
func (g *guard) hasRoom(c *Client) bool {
	t := &g.files.memory
	return t.Free() >= sizeMost && t.May(&c.holding.place, 1)
}

// crowded reports whether c can get no more state. It then also makes the sweep free memory:
// see relieve.
func (g *guard) crowded(c *Client) bool {
	if g.hasRoom(c) {
		return false
	}
	_, starved := g.memoryLoser(c)
	g.relieve(g.ofMemoryFor(c), starved)
	return true
}

// refusedEvery is the least time between two Events of the kind Refused.
const refusedEvery = time.Minute

// full returns the verdict for the client c, which was refused state for lack of memory or another resource. It is
// TryLater if the next sweep can make room, because there are clients whose leases ran out or because an address is
// starved (relieve). It is FullOfOwn if the clients of c's address themselves have most of the memory: a program
// would wait for ever.
func (g *guard) full(c *Client) Verdict {
	if g.sweeper.frees() {
		return TryLater
	}
	if now := g.now(); now >= g.sweeper.tellRefused && !g.hasRoom(c) {
		g.sweeper.tellRefused = now + refusedEvery
		g.events = append(g.events, &Event{Kind: Refused, Clients: []Record{g.recordOf(c)}})
	}
	t := &g.files.memory
	return overfull(2*t.AddressHolds(c.holding.place.Address) > t.Held())
}

// A lockCount counts lock stateids and the byte ranges that they lock.
type lockCount struct{ locks, ranges int }

func (n lockCount) and(more lockCount) lockCount {
	return lockCount{n.locks + more.locks, n.ranges + more.ranges}
}

// count adds more, whose numbers may be negative, to the file's counts: of c, of its address, and of all.
func (of *file) count(c *Client, more lockCount) {
	if of.by == nil {
		of.by = make(map[any]lockCount)
	}
	of.held = of.held.and(more)
	for _, who := range [...]any{c, c.known.origin} {
		has := of.by[who].and(more)
		if of.by[who] = has; has == (lockCount{}) {
			delete(of.by, who)
		}
	}
}

// counted adds n to the counts of the ranges that the lock s holds. n may be negative.
func (g *guard) counted(s *State, n int) {
	if c := g.files.claims[s.Key]; c != nil {
		c.ranges += n
	}
	g.files.usage.Ranges += n
	s.Client.holding.ranges += n
	s.file.count(s.Client, lockCount{ranges: n})
	g.charge(s.Client, n*sizeRange)
}

// mayGrow returns Granted if c may get more stateids and ranges in a file, or else the error to answer.
func (g *guard) mayGrow(c *Client, of *file, more lockCount) Verdict {
	has, near := of.by[c], of.by[c.known.origin]
	switch {
	case has.ranges+more.ranges > part(maxFileRanges, of.held.ranges, near.ranges, has.ranges):
		return overfull(2*has.ranges > of.held.ranges)
	case more.locks > 0 && has.locks+more.locks > part(maxFileLocks, of.held.locks, near.locks, has.locks):
		return overfull(2*has.locks > of.held.locks)
	case g.crowded(c):
		return g.full(c)
	}
	return Granted
}

// part returns how many items one client may have. most is the limit for all clients together; all,
// near and has are the numbers in use by all clients, by those of the same address, and by the client
// itself. An address may have half of the items that other addresses do not use. Of these, a client
// may have half of those that the other clients of its address do not use.
func part(most, all, near, has int) int {
	address := (most - (all - near)) / 2
	return (address - (near - has)) / 2
}

// overfull returns the verdict for a client that wants more locks in a file, or more open files, than it
// may have. own is true if the client itself holds most of them.
func overfull(own bool) Verdict {
	if own {
		return FullOfOwn
	}
	return Full
}

// RoomToOpen returns Granted if c may open a new file of the file system with this domain (see
// DomainOf), or else the error to answer. A caller asks before it creates the file.
func (m *Manager) RoomToOpen(c *Client, domain any) Verdict {
	room := openRoomOf(domain)
	g := m.acquire()
	defer g.release()
	if s := g.mayBegin(c); s != Granted {
		return s
	}
	if g.crowded(c) {
		return g.full(c)
	}
	return g.mayOpen(c, fileID{}, room)
}

// An openRoom is how many files a file system (its domain) had open, and the most that it can; 0: no limit.
type openRoom struct {
	domain     any
	open, most int
}

// openRoomOf asks the file system. The caller does not hold Manager.mu.
func openRoomOf(domain any) openRoom {
	r := openRoom{domain: domain}
	if counter, ok := domain.(vfs.OpenCounter); ok {
		r.open, r.most = counter.OpenFiles()
	}
	return r
}

// mayOpen returns Granted if c may open this file of the file system. Otherwise it makes the sweep free open
// files (relieve), and returns the error to answer. That is not TryLater if the clients of c's address
// themselves have most of the open files: open(2) would wait for ever.
//
// All clients of an address may have at most three times as many open files of a file system as it can still
// open, without an eighth of its limit. A file that one of them has open already does not count again.
func (g *guard) mayOpen(c *Client, id fileID, r openRoom) Verdict {
	o := c.known.origin
	if of := g.files.byID[id]; r.most == 0 || of != nil && o.files.opens[shown{of, r.domain}] > 0 {
		return Granted
	}
	if r.open > r.most/2 && g.sweeper.courteous > 0 && g.sweeper.lack == nil {
		// Evict clients without a valid lease already now, while the file system can still open files.
		g.relieve(g.ofFiles(c, r), false)
	}
	// An eighth of the limit stays free for files that are being opened and belong to no client yet. Half
	// of this eighth is also for addresses that have no more than their part.
	has, t := o.files.open(r.domain), g.files.room(r)
	entitled := t == nil || t.Entitled(o.files.node(c, r.domain), 1)
	if has+1 > 3*(r.most-r.most/8-r.open) && !(entitled && r.open < r.most-r.most/16) {
		_, starved := g.filesLoser(c, r)
		g.relieve(g.ofFiles(c, r), starved)
		r.domain.(vfs.OpenCounter).OpenRefused()
		if g.sweeper.frees() {
			return TryLater
		}
		return overfull(2*has > r.open)
	}
	return Granted
}

// ofFiles returns the shortage of open files that r shows, and that c has met.
func (g *guard) ofFiles(c *Client, r openRoom) *shortage {
	m, few := g.Manager, max(1, r.most/64)
	return &shortage{
		all: r.most, used: func() int { return r.open }, domain: r.domain, by: c.known.address,
		has: func(o *origin) int { return o.files.open(r.domain) }, takes: func(c *Client) int { return c.hasOpen(r.domain) },
		loser: func() (loser, bool) { return (&guard{Manager: m}).filesLoser(c, r) },
		short: func(taken int) bool { return taken < few },
	}
}

// hasOpen returns the number of opens that c has in a file system.
func (c *Client) hasOpen(domain any) (n int) {
	for s := range c.holding.states {
		if s.Kind == KindOpen && s.Key.Domain == domain {
			n++
		}
	}
	return n
}
