package state

import (
	"sync/atomic"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/census"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// grace is the time after a start in which clients claim what they held, and get
// nothing else (RFC 8881 §8.4.2.1).
type grace struct {
	on atomic.Bool
	// until is when it ends, as Manager.now has it, unless clients are claiming then.
	// claimed is when a client claimed something last, or came that may.
	until, claimed time.Duration
	// timer wakes the sweep at its end: its ticks are as far apart as leases are long.
	timer *time.Timer
	// ending: what was not claimed is forgotten, and nothing may be claimed any more.
	ending bool
	// claims are those who may claim: the records found at the start.
	claims map[name]*claim
	// open counts the claims of clients that have not said yet that they are done.
	open int
}

// A claim is the right of one client of old to claim what it held.
type claim struct {
	Record
	// done: it has said that there is no more to come, or, in minor version 0, has
	// claimed something.
	done bool
}

// reclaim is how far a client is with claiming what it held.
type reclaim struct {
	// needed: it may have something to claim, and has not said that it is done.
	needed atomic.Bool
	// complete: it has sent RECLAIM_COMPLETE.
	complete bool
	// recorded: it has a record on stable storage.
	recorded bool
	// revoked: something that it held was revoked, and it has not said that it knows that.
	revoked bool
}

// beginGrace begins the time of grace, where there is a record of any client. It is as long as
// the longest lease that a client was told of: a client need not be heard of for as long, and
// finds out about the restart then (RFC 8881 §8.4.2.1).
func (m *Manager) beginGrace(known []Record) {
	g := &m.grace
	g.claims = map[name]*claim{}
	long := m.cfg.Grace
	for _, r := range known {
		if r.Revoked {
			m.forgotten = append(m.forgotten, r)
			continue
		}
		long = max(long, r.Lease)
		g.claims[name{r.Minor, r.Owner}] = &claim{Record: r}
	}
	g.open = len(g.claims)
	if g.open > 0 {
		g.until = m.now() + long
		g.timer = time.AfterFunc(long, m.wake)
		g.on.Store(true)
		m.tell(&Event{Kind: GraceBegan, Clients: known, For: long})
	}
}

// end is when the time of grace ends, by what is known now: as long as clients claim it goes
// on, to twice its time at most.
func (g *grace) end() time.Duration {
	return max(g.until, min(2*g.until, g.claimed+g.until/4))
}

// keeps says that a name waits for the client that a record has it of, and may claim what
// it held: until the time of grace is over for one with another principal, and for half of it
// for one that comes from another address and whose principal is only said. It is called with
// m.mu held, where there is no confirmed client of the name.
func (m *Manager) keeps(minor uint32, id *Identity) bool {
	g := &m.grace
	if !g.on.Load() || g.ending {
		return false
	}
	r := g.claims[name{minor, string(id.Owner)}]
	switch {
	case r == nil || r.done:
		return false
	case r.Principal != id.Principal:
		return true
	case id.Proven || !r.Address.IsValid():
		return false
	}
	return r.Address != census.Client(id.Address) && m.now() < g.until/2
}

// InGrace says that only what was held before the restart may be claimed now. Nor may
// names be changed then that a client might still claim (RFC 8881 §8.4.2.1).
func (m *Manager) InGrace() bool { return m.grace.on.Load() }

// claimOf is the claim that c may still make, or nil. It is called with m.mu held.
func (m *Manager) claimOf(c *Client) *claim {
	g := &m.grace
	if !g.on.Load() || g.ending {
		return nil
	}
	r := g.claims[c.name()]
	if r == nil || r.Principal != c.Principal || r.done && c.Minor > 0 {
		return nil
	}
	return r
}

// MayReclaim says whether c may claim what it held before the restart.
func (m *Manager) MayReclaim(c *Client) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mayReclaim(c)
}

func (m *Manager) mayReclaim(c *Client) bool {
	return !c.known.reclaim.complete && m.claimOf(c) != nil
}

// mayHold says whether c may be granted something at the moment: what it held before the
// restart, where claimed is set, or something new. NO_GRACE: it may not claim; GRACE: not
// yet; DELAY: the disk has to say first what was revoked. It is called with m.mu held.
func (m *Manager) mayHold(c *Client, claimed bool) Status {
	switch {
	case claimed && !m.mayReclaim(c):
		return nfs4wire.NFS4ErrNoGrace
	case claimed:
		m.grace.claimed = m.now()
		return nfs4wire.NFS4OK
	case m.InGrace(), c.Minor > 0 && !c.known.reclaim.complete:
		return nfs4wire.NFS4ErrGrace
	case m.withheld:
		return nfs4wire.NFS4ErrDelay
	}
	return nfs4wire.NFS4OK
}

// reclaimed notes that a client of minor version 0 has claimed something, so that it keeps
// its record when the time of grace ends. It is called with m.mu held.
func (m *Manager) reclaimed(c *Client) {
	if r := m.claimOf(c); r != nil && c.Minor == 0 {
		r.done = true // which ends no grace: there may be more to come, and nothing says so
		c.known.reclaim.recorded = true
	}
}

// settle notes that a claim is done. It is called with m.mu held.
func (m *Manager) settle(r *claim) {
	if r.done {
		return
	}
	r.done = true
	m.grace.open--
	m.wake()
}

// ReclaimComplete is a global RECLAIM_COMPLETE (RFC 8881 §18.51): the client is recorded
// on stable storage, and may hold something new once the time of grace is over. With try,
// what would wait for the disk is not done, and blocked is true.
func (m *Manager) ReclaimComplete(c *Client, try bool) (s Status, blocked bool) {
	if m.cfg.Records == nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.complete(c), false
	}
	if try {
		m.mu.Lock()
		defer m.mu.Unlock()
		if c.known.reclaim.complete {
			return nfs4wire.NFS4ErrCompleteAlready, false
		}
		return 0, true
	}
	m.mu.Lock()
	again := c.known.reclaim.complete
	m.mu.Unlock()
	if again {
		return nfs4wire.NFS4ErrCompleteAlready, false
	}
	defer m.record(c)()
	m.mu.Lock()
	defer m.mu.Unlock()
	if !c.known.reclaim.recorded && !c.known.reclaim.complete {
		return nfs4wire.NFS4ErrDelay, false
	}
	return m.complete(c), false
}

// complete is called with m.mu held.
func (m *Manager) complete(c *Client) Status {
	k := &c.known.reclaim
	switch {
	case k.complete:
		return nfs4wire.NFS4ErrCompleteAlready
	case c.known.gone:
		return nfs4wire.NFS4ErrDelay // what comes again finds no session
	}
	if r := m.claimOf(c); r != nil {
		m.settle(r)
	}
	k.complete = true
	k.needed.Store(false)
	return nfs4wire.NFS4OK
}

// mayBeNeeded notes whether a client that has just confirmed itself has something to
// claim. It is called with m.mu held.
func (m *Manager) mayBeNeeded(c *Client) {
	needed := m.mayReclaim(c)
	c.known.reclaim.needed.Store(needed)
	if needed {
		m.grace.claimed = m.now()
	}
}

// sweepGrace ends the time of grace where it is over, or no client is left that may claim.
// Those who did not claim are forgotten first, in one transaction: another client may
// get what they held (RFC 8881 §8.4.3, the second edge condition). Where that fails,
// grace goes on.
func (m *Manager) sweepGrace() {
	g := &m.grace
	if !g.on.Load() {
		return
	}
	m.recording.lock()
	defer m.recording.unlock()
	m.mu.Lock()
	if left := g.end() - m.now(); g.open > 0 && left > 0 && !g.ending {
		g.timer.Reset(left)
		m.mu.Unlock()
		return
	}
	g.ending = true
	var lapsed []Record
	for n, r := range g.claims {
		if in := m.clients.byName[n]; !r.done && (in == nil || in.confirmed == nil || !in.confirmed.known.reclaim.recorded) {
			lapsed = append(lapsed, r.Record)
		}
	}
	m.mu.Unlock()
	if len(lapsed) > 0 && m.cfg.Records.Remove(lapsed) != nil {
		return
	}
	m.mu.Lock()
	g.claims = nil
	m.mu.Unlock()
	g.on.Store(false)
	m.tell(&Event{Kind: GraceEnded, Clients: lapsed})
}
