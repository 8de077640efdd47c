package state

import (
	"maps"
	"slices"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/byterange"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A guard is the Manager while this goroutine holds its mutex (Manager.mu). A function with a guard
// must not call an exported method of the Manager that may take the mutex. The guard also collects
// the work to do after the mutex is released.
type guard struct {
	*Manager
	closing []vfs.File
	// claims are the local claims of files in which locks ended. If waits is true, finish gives them up
	// itself, and waits for the file system: the request is about that file.
	claims  map[*localClaim]struct{}
	waits   bool
	gone    []*Client
	ended   []func()
	notices []LockNotice
	// idle are opens of hosts that release ends if nothing hangs on them any more: see endIdle.
	idle   []*State
	events []*Event
	late   courtesy
}

// acquire takes the mutex. The caller calls release.
func (m *Manager) acquire() *guard {
	m.mu.Lock()
	return &guard{Manager: m}
}

// release releases the mutex, and does the collected work.
func (g *guard) release() {
	g.endIdle()
	g.mu.Unlock()
	g.finish()
}

// finish does the collected work. The caller does not hold the mutex. It waits for no file system, unless
// waits is set: state ends on whichever goroutine finds out that it has to, such as that of another
// client's request in another file system, or the sweeper's.
func (g *guard) finish() {
	for _, c := range g.gone {
		if c.known.companion != nil {
			c.known.companion.Gone()
		}
	}
	g.sendNotices()
	for _, e := range g.events {
		g.tell(e)
	}
	for _, f := range g.ended {
		f()
	}
	for _, f := range g.closing {
		f.Close()
	}
	for c := range g.claims {
		if g.waits {
			g.giveUp(c)
		} else {
			g.giving.soon(g.Manager, c)
		}
	}
}

// sendNotices tells the clients of the locks that have become free. The caller does not hold the mutex.
func (g *guard) sendNotices() {
	for _, n := range g.notices {
		notify := g.files.notify.Load()
		if n.Client.isHost() {
			notify = g.files.notifyHosts.Load()
		}
		if notify != nil {
			(*notify)(n)
		}
	}
	g.notices = nil
}

// close makes finish close a file; f may be nil.
func (g *guard) close(f vfs.File) {
	if f != nil {
		g.closing = append(g.closing, f)
	}
}

// giveUpLater makes finish give up the local claims on ranges of a file that are no longer locked, or have
// them given up soon.
func (g *guard) giveUpLater(key FileKey, dropped []byterange.Range) {
	c := g.files.claims[key]
	if c == nil || len(dropped) == 0 {
		return
	}
	if g.claims == nil {
		g.claims = make(map[*localClaim]struct{})
	}
	if _, has := g.claims[c]; !has {
		g.claims[c] = struct{}{}
		c.users++
	}
	c.dropped = append(c.dropped, dropped...)
}

// courtesy collects the clients whose state conflicts with a request.
type courtesy struct {
	// firm is true if a client with a valid lease conflicts: the request then fails. clients are the
	// conflicting clients without a valid lease. Once firm is true, blame adds no more of them.
	firm    bool
	clients map[*Client]struct{}
}

// blame stores in g.late that state of c conflicts with the request.
func (g *guard) blame(c *Client) {
	l := &g.late
	switch _, known := l.clients[c]; {
	case known:
	case !g.expired(c, g.now()):
		l.firm = true
	case !l.firm:
		if l.clients == nil {
			l.clients = make(map[*Client]struct{})
		}
		l.clients[c] = struct{}{}
	}
}

// settled executes a request: f does the work, and calls blame for each client whose state conflicts
// with the request. If the leases of all these clients ran out, settled evicts the clients and calls
// f again. If an eviction fails, or has just failed, the result of f stands. If later is not nil, settled
// returns false instead of waiting for an eviction.
func (m *Manager) settled(later *Later, f func(g *guard)) bool {
	for {
		g := m.acquire()
		f(g)
		g.release()
		switch {
		case g.late.none():
			return true
		case later != nil:
			return !m.waits(later, &g.late)
		case !m.expel(g.late.clients):
			return true
		}
	}
}

// none reports whether evictions would not help: no client conflicts, or one with a valid lease.
func (l *courtesy) none() bool { return l.firm || len(l.clients) == 0 }

// expel evicts the given clients, because another client wants their state. Their leases have run
// out. It returns false if the record of one of them could not be removed.
func (m *Manager) expel(clients map[*Client]struct{}) bool {
	return m.evict(slices.Collect(maps.Keys(clients)), Wanted) == nil
}

// A LockNotice tells a client that a lock that was denied is now free (RFC 8881 §20.11).
type LockNotice struct {
	Client *Client
	Owner  string
	// Tag is the value that the caller of Lock passed in LockArgs.Tag.
	Tag any
}

// NotifyLocks sets the function that the Manager calls, without its mutex, for each awaited lock that
// becomes free. The function waits for nothing. NotifyLocks is called once, before any client has state.
func (m *Manager) NotifyLocks(f func(LockNotice)) { m.files.notify.Store(&f) }

// NotifiesLocks reports whether NotifyLocks was called.
func (m *Manager) NotifiesLocks() bool { return m.files.notify.Load() != nil }
