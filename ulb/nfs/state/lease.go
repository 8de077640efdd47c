package state

import (
	"container/list"
	"net/netip"
	"sync/atomic"
	"time"
)

// lease holds the Manager's data about a client, besides its name and its state.
type lease struct {
	address   netip.Addr
	origin    *origin
	met       atomic.Pointer[[]source] // see hasMet; in the order in which meet stored them
	aliases   []name                   // see guard.alias; at most maxMet, the oldest first
	companion Companion
	confirmed bool
	// gone is true when the Manager has removed the client, and grants it nothing more. dying is true
	// then, and while the Manager evicts the client: see Dying.
	// ending is true once the Manager is certain to remove the client. The Manager then ends the client's state in pieces,
	// and does not know its stateids any more.
	gone          bool
	dying, ending atomic.Bool
	// ended are called after the Manager has removed the client: see afterEnd.
	ended []func()
	// running is the number of requests that BeginRequest has counted and EndRequest has not.
	// sessions is the number of the client's sessions.
	running, sessions atomic.Int64
	// renewed is when the client last renewed its lease, or was created, on the clock of Manager.now.
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

// unwritten returns the shortest time between two stores of lease.renewed by Renew. expired adds it
// to the lease, because the stored time may be that much too old.
func (m *Manager) unwritten() time.Duration { return m.cfg.Lease >> 10 }

// afterEnd makes f be called once the Manager has removed c, whose state it ends in pieces. It returns false, and f is not
// called, if the Manager is not ending it.
func (g *guard) afterEnd(c *Client, f func()) bool {
	if c.known.gone || !c.known.ending.Load() {
		return false
	}
	c.known.ended = append(c.known.ended, f)
	return true
}

// Dying reports whether the client is gone or being evicted: the server then starts no request of it.
func (c *Client) Dying() bool { return c.known.dying.Load() }

// BeginRequest counts a request that the server begins to execute. Until EndRequest the client's lease runs
// out later (hangs). If the client is Dying, BeginRequest returns false and counts nothing.
func (c *Client) BeginRequest() bool {
	// Count the request before reading dying: condemned does the reverse, so one of the two sees the other.
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

// AddSessions adds n, perhaps negative, to the number of the client's sessions: see Destroy.
func (c *Client) AddSessions(n int) { c.known.sessions.Add(int64(n)) }

// hangs is the number of leases after the last renewal for which a request that is under way keeps the
// client's lease. A client that lives renews its lease by other requests, however long one takes. If the
// file system of that one hangs, the client's state in other file systems must not stay for as long.
const hangs = 3

// expired reports whether the client's lease has run out. Once Evict has then removed the client, other
// clients may get its state. A host has no lease. now is Manager.now.
func (g *guard) expired(c *Client, now time.Duration) bool {
	if c.isHost() {
		return false
	}
	silent := now - time.Duration(c.known.renewed.Load()) - g.unwritten()
	return silent > g.cfg.Lease && (!c.Busy() || silent > hangs*g.cfg.Lease)
}

// Notices is a set of what a client has to be told with its next reply.
type Notices uint8

// Notices.
const (
	// NoticeRevoked: the client has revoked stateids that it has not freed.
	NoticeRevoked Notices = 1 << iota
	// NoticeReclaim: the server has restarted, and the client has not said that it has reclaimed everything.
	NoticeReclaim
)

// Notices returns what c has to be told. It takes no lock.
func (m *Manager) Notices(c *Client) (n Notices) {
	if c.known.hasRevoked.Load() {
		n = NoticeRevoked
	}
	if m.grace.on.Load() && c.known.reclaim.needed.Load() {
		n |= NoticeReclaim
	}
	return n
}
