package state

import (
	"container/list"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// maxCourteous is how many clients whose leases ran out are kept.
const maxCourteous = 1024

// lease is what a Client is beside its name: how far it came, and until when its lease
// runs.
type lease struct {
	address   netip.Addr
	origin    *origin
	met       []netip.Addr // as census.Client counts them, the latest last
	companion Companion
	confirmed bool
	proven    bool // Identity.Proven
	// gone: it is no more. dying: it may not begin anything, for it is about to go.
	gone  bool
	dying atomic.Bool
	// evicted is closed when the eviction that is under way has ended.
	evicted chan struct{}
	// renewed is when the lease was last renewed, or the client made, as Manager.now
	// has it.
	renewed atomic.Int64
	// status are SEQ4_STATUS flags that SEQUENCE shows the client.
	status atomic.Uint32
	// inAll and inOrigin are its places in the lists of unconfirmed clients.
	inAll, inOrigin *list.Element

	reclaim reclaim
	v40     setClientID
}

// now is the time since the Manager was made.
func (m *Manager) now() time.Duration { return time.Since(m.sweeper.start) }

// Renew begins the client's lease anew.
func (m *Manager) Renew(c *Client) {
	// Written only where it makes a difference: the line is shared by all that the
	// client's processors do.
	now, old := int64(m.now()), c.known.renewed.Load()
	if now-old > int64(m.unwritten()) {
		c.known.renewed.Store(now)
	}
}

// unwritten is how much later than it is noted a lease may have been renewed.
func (m *Manager) unwritten() time.Duration { return m.cfg.Lease >> 10 }

// Dying says that the client is no more, or about to go: it may not begin anything.
func (c *Client) Dying() bool { return c.known.dying.Load() }

// expired says that the client's lease had run out at a time that now() returned, and
// that no request of it is under way: what it holds may be given to others, once Evict
// has removed it. It is called with m.mu held.
func (m *Manager) expired(c *Client, now time.Duration) bool {
	if now-time.Duration(c.known.renewed.Load()) <= m.cfg.Lease+m.unwritten() {
		return false
	}
	return c.known.companion == nil || !c.known.companion.Busy()
}

// Evict removes a client whose lease ran out, with all that it holds, so that what it
// holds can be given to others: first its record on stable storage, so that it can not
// claim that back after a restart (RFC 8881 §8.4.3). Evict waits for the disk, and is
// called without a lock. Where the client has renewed its lease meanwhile, nothing
// happens; where the record could not be removed, the client stays, and err says why.
func (m *Manager) Evict(c *Client) error { return m.evict([]*Client{c}, Named) }

// evict is Evict of several clients, whose records are removed together: the disk is waited
// for once. Only Greedy clients are evicted that have a lease. It returns when all of them are
// gone or stay, those as well whose eviction was under way already.
func (m *Manager) evict(all []*Client, why Why) error {
	for len(all) > 0 {
		var mine, later []*Client
		done := make(chan struct{})
		m.mu.Lock()
		for _, c := range all {
			switch {
			case c.known.gone:
			case c.known.evicted != nil:
				later = append(later, c)
			case m.condemned(c, why == Greedy):
				c.known.evicted = done
				mine = append(mine, c)
			}
		}
		m.mu.Unlock()
		err := m.removeRecords(mine)
		var gone afterwards
		for _, c := range mine {
			gone.add(m.evicted(c, err == nil, why))
		}
		close(done) // what others wait for; a file system may hold up the rest
		gone.run()
		if err != nil {
			return err
		}
		// Only now, when no other eviction waits for this one.
		for _, c := range later {
			m.mu.Lock()
			wait := c.known.evicted
			m.mu.Unlock()
			if wait != nil {
				<-wait
			}
		}
		all = later
	}
	return nil
}

// condemned says whether c is to be evicted. It begins nothing from then on; what it began
// before is seen as Busy. It is called with m.mu held.
func (m *Manager) condemned(c *Client, anyhow bool) bool {
	c.known.dying.Store(true)
	if anyhow || m.expired(c, m.now()) {
		return true
	}
	c.known.dying.Store(false)
	return false
}

// evicted ends an eviction: c goes, or stays. What it returns is called without a lock.
func (m *Manager) evicted(c *Client, goes bool, why Why) (after func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c.known.evicted = nil
	if goes {
		held := !c.known.gone && m.holds(c)
		gone := m.remove(c)
		if !held {
			return gone
		}
		e := Event{Kind: Taken, Clients: []Record{m.recordOf(c)}, Why: why}
		return func() {
			gone()
			m.tell(&e)
		}
	}
	if !c.known.gone {
		c.known.dying.Store(false)
	}
	return func() {}
}

// SetStatus shows the client flags in each SEQUENCE, until ClearStatus: bits of
// SEQ4_STATUS (RFC 8881 §18.46.3).
func (c *Client) SetStatus(flags uint32) { c.known.status.Or(flags) }

// ClearStatus takes flags of SetStatus back.
func (c *Client) ClearStatus(flags uint32) { c.known.status.And(^flags) }

// Status are the flags to be shown to the client at the moment.
func (m *Manager) Status(c *Client) uint32 {
	flags := c.known.status.Load()
	if m.grace.on.Load() && c.known.reclaim.needed.Load() {
		flags |= nfs4wire.Seq4StatusRestartReclaimNeeded
	}
	return flags
}
