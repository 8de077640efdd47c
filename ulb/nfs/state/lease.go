package state

import (
	"container/list"
	"maps"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// maxCourteous is the largest number of clients without a valid lease that the server keeps. It
// keeps half as many while maxClients/2 clients or more are confirmed: see discourteous.
const maxCourteous = 1024

// lease holds the Manager's data about a client, besides its name: its addresses, whether it is
// confirmed, and its lease.
type lease struct {
	address   netip.Addr
	origin    *origin
	met       []netip.Addr // see Met; reduced by clientaddr.Of, in the order in which meet stored them
	companion Companion
	confirmed bool
	proven    bool // Identity.Proven
	// gone is true when the Manager has removed the client. dying is true while the Manager evicts
	// the client, and when the client is gone: the server then starts no new request of the client.
	gone  bool
	dying atomic.Bool
	// running is the number of requests that BeginRequest has counted and EndRequest has not.
	// sessions is the number of the client's sessions.
	running, sessions atomic.Int64
	// renewed is the time at which the client last renewed its lease, or was created, on the clock
	// of Manager.now.
	renewed atomic.Int64
	// hasRevoked is true while the client has revoked stateids that it has not freed.
	hasRevoked atomic.Bool
	// inAll and inOrigin are the elements of an unconfirmed client in the lists clients.unconfirmed
	// and origin.unconfirmed. A confirmed client has none.
	inAll, inOrigin *list.Element

	reclaim reclaim
	v40     setClientID
}

// now returns the time since the Manager was made.
func (m *Manager) now() time.Duration { return time.Since(m.sweeper.start) }

// Renew starts the client's lease anew, unless it has just done so: see unwritten.
func (m *Manager) Renew(c *Client) {
	// Write rarely: all processors that serve the client share this cache line.
	now, old := int64(m.now()), c.known.renewed.Load()
	if now-old > int64(m.unwritten()) {
		c.known.renewed.Store(now)
	}
}

// unwritten returns the shortest time between two stores of lease.renewed by Renew. The stored time
// may be that much too old, so expired adds the same time to the lease.
func (m *Manager) unwritten() time.Duration { return m.cfg.Lease >> 10 }

// Dying reports whether the client is gone or is being evicted. The server then starts no new
// request of it.
func (c *Client) Dying() bool { return c.known.dying.Load() }

// BeginRequest counts a request that the server begins to execute. The client's lease cannot run
// out until EndRequest. If the client is Dying, BeginRequest returns false and counts nothing.
func (c *Client) BeginRequest() bool {
	// Count the request before reading dying: condemned does the reverse, so that one of the two
	// sees the other.
	c.known.running.Add(1)
	if c.Dying() {
		c.known.running.Add(-1)
		return false
	}
	return true
}

// EndRequest ends a request for which BeginRequest returned true, and renews the client's lease.
func (m *Manager) EndRequest(c *Client) {
	m.Renew(c)
	c.known.running.Add(-1)
}

// Busy reports whether the server is executing a request of the client.
func (c *Client) Busy() bool { return c.known.running.Load() > 0 }

// AddSessions adds n to the number of the client's sessions. A client with sessions is in use:
// Destroy does not remove it. n may be negative.
func (c *Client) AddSessions(n int) { c.known.sessions.Add(int64(n)) }

// expired reports whether the client's lease has run out and no request of the client is under way.
// now is the present time on the clock of Manager.now. Other clients may then get the client's
// state, once Evict has removed the client.
func (g *guard) expired(c *Client, now time.Duration) bool {
	if now-time.Duration(c.known.renewed.Load()) <= g.cfg.Lease+g.unwritten() {
		return false
	}
	return !c.Busy()
}

// Evict removes a client whose lease ran out, with all its state, so that other clients can get the
// state. It first removes the record on stable storage, so that the client cannot reclaim the state
// after a restart (RFC 8881 §8.4.3). Evict waits for the disk; the caller holds no lock. If the
// client has renewed its lease meanwhile, Evict does nothing. If the record cannot be removed, the
// client stays, and Evict returns the error.
func (m *Manager) Evict(c *Client) error { return m.evict([]*Client{c}, Named) }

// evict is Evict for several clients. It removes their records together, so that it waits for the
// disk once. It evicts clients with a valid lease only if the reason (why) is Greedy. One eviction
// runs at a time.
func (m *Manager) evict(all []*Client, why Why) (err error) {
	m.recording.lock()
	var condemned []*Client
	var records []Record
	g := m.acquire()
	for _, c := range all {
		if c.known.gone || !g.condemned(c, why == Greedy) {
			continue
		}
		condemned = append(condemned, c)
		if c.known.reclaim.stored != nil || g.claimBefore(c) != nil {
			records = append(records, g.recordOf(c))
		}
	}
	g.release()
	if len(records) > 0 {
		err = m.cfg.Records.Remove(records)
	}
	g = &guard{Manager: m}
	for _, c := range condemned {
		m.mu.Lock()
		g.evicted(c, err == nil, why)
		m.mu.Unlock()
	}
	m.recording.unlock() // before finish: other goroutines wait for it, and closing files may take long
	g.finish()
	return err
}

// condemned reports whether to evict c: its lease has run out, or anyhow is true. If so, c stays
// marked as dying. condemned sets dying before it checks the lease: see BeginRequest.
func (g *guard) condemned(c *Client, anyhow bool) bool {
	c.known.dying.Store(true)
	if anyhow || g.expired(c, g.now()) {
		return true
	}
	c.known.dying.Store(false)
	return false
}

// evicted ends the eviction of c. unrecorded is true if c has no record any more: evicted then
// removes c. Otherwise c stays.
func (g *guard) evicted(c *Client, unrecorded bool, why Why) {
	if unrecorded {
		c.known.reclaim.stored = nil
		g.dropClaim(c)
	}
	switch {
	case c.known.gone:
	case !unrecorded:
		c.known.dying.Store(false)
	default:
		if g.holds(c) {
			g.events = append(g.events, &Event{Kind: Taken, Clients: []Record{g.recordOf(c)}, Why: why})
		}
		g.remove(c)
	}
}

// Status returns the SEQ4_STATUS flags for a reply to SEQUENCE (RFC 8881 §18.46.3).
func (m *Manager) Status(c *Client) (flags uint32) {
	if c.known.hasRevoked.Load() {
		flags = nfs4wire.Seq4StatusAdminStateRevoked
	}
	if m.grace.on.Load() && c.known.reclaim.needed.Load() {
		flags |= nfs4wire.Seq4StatusRestartReclaimNeeded
	}
	return flags
}

// courtesy collects the clients whose state conflicts with a request.
type courtesy struct {
	// firm is true if a client with a valid lease conflicts. The request then fails. clients are
	// the conflicting clients without a valid lease. Once firm is true, blame adds no more of them.
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

// WouldWait is the status of a request with Try that cannot be executed without a wait. The wait
// may be for the disk, because clients have to be evicted whose leases ran out and whose state
// conflicts with the request. Or it may be for the file system, because local claims have to be
// given up. The request has granted and released nothing. But a LOCK with LockArgs.Wait may already
// be in the queue for its lock.
const WouldWait Status = -1

// settled executes a request: f does the request's work. f calls blame for each client whose state
// conflicts with the request. If the leases of all these clients ran out, settled evicts the
// clients and calls f again. If an eviction fails, the result of f stands. If try is true, settled
// evicts no client; it returns false if an eviction is needed.
func (m *Manager) settled(try bool, f func(g *guard)) bool {
	for {
		g := m.acquire()
		f(g)
		g.release()
		switch {
		case g.late.none():
			return true
		case try:
			return false
		case !m.expel(g.late.clients):
			return true
		}
	}
}

// none reports whether evictions would not help: there is no conflict, or a client with a valid
// lease conflicts.
func (l *courtesy) none() bool { return l.firm || len(l.clients) == 0 }

// expel evicts the given clients, because another client wants their state. Their leases have run
// out. It returns false if the record of one of them could not be removed.
func (m *Manager) expel(clients map[*Client]struct{}) bool {
	return m.evict(slices.Collect(maps.Keys(clients)), Wanted) == nil
}

// MayHold reports whether the Manager may grant c an open with this deny mode, or a lock, now.
// claimed is true if c reclaims state from before the restart. The status is NFS4_OK,
// NFS4ERR_GRACE, NFS4ERR_NO_GRACE, NFS4ERR_RECLAIM_BAD or NFS4ERR_DELAY. first is true if the
// caller has to call Record before the grant.
func (m *Manager) MayHold(c *Client, deny Access, claimed bool) (s Status, first bool) {
	g := m.acquire()
	defer g.release()
	return g.mayHold(c, deny, claimed), !g.isRecorded(c, deny, claimed)
}

// isRecorded reports whether c may get an open with this deny mode before the Manager writes the
// record of c again. That is so if its record on stable storage covers such an open. It is also so
// if a client of minor version 1 or later reclaims the open: its record from before the restart
// covers the open, and the Manager renews the record at RECLAIM_COMPLETE. A client of minor version
// 0 sends no RECLAIM_COMPLETE, so its record is renewed before its first reclaim.
func (g *guard) isRecorded(c *Client, deny Access, claimed bool) bool {
	return g.cfg.Records == nil || c.known.reclaim.covers(heldBy(deny)) || claimed && c.Minor > 0
}
