package state

import (
	"slices"
	"time"
)

// sweeper is the Manager's background goroutine. It removes clients that the server no longer
// keeps, and their records. It ends opens that were not confirmed in time, and the grace period.
type sweeper struct {
	start time.Time
	woken chan struct{} // capacity 1
	stop  chan struct{}
	ended chan struct{}
	// swept is the time of the last sweep. lack and starved combine the arguments of all calls of
	// relieve since then; lack is nil if there was none. Manager.mu guards them.
	swept   time.Duration
	lack    *shortage
	starved bool
	// courteous is the number of confirmed clients without a valid lease that the last sweep found
	// and did not remove at once. Manager.mu guards it.
	courteous int
}

// Close ends the Manager's goroutine. It does not close Config.Records: the caller does that
// afterwards.
func (m *Manager) Close() {
	close(m.sweeper.stop)
	<-m.sweeper.ended
}

// wake makes the Manager's goroutine sweep at once or, if it is sweeping, once more afterwards.
func (m *Manager) wake() {
	select {
	case m.sweeper.woken <- struct{}{}:
	default:
	}
}

func (m *Manager) sweepOn() {
	defer close(m.sweeper.ended)
	tick := time.NewTicker(max(m.cfg.Lease/8, 10*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-m.sweeper.stop:
			return
		case <-tick.C:
		case <-m.sweeper.woken:
		}
		m.sweepGrace()
		m.sweepMarks()
		m.removeForgotten()
		m.sweepUnconfirmed()
		m.sweepClients()
	}
}

// sweepClients removes clients that did not confirm themselves within a lease, and clients that the
// server no longer keeps without a lease (see discourteous). If relieve was called since the last
// sweep, it also removes all expired clients that hold nothing and may reclaim nothing. If relieve
// then reported an address as starved, and no client without a lease is left to evict, it evicts
// clients with valid leases: see greedy.
func (m *Manager) sweepClients() {
	g := m.acquire()
	now := g.now()
	t, w := &g.clients, &g.sweeper
	for e := t.unconfirmed.Front(); e != nil; e = t.unconfirmed.Front() {
		c := e.Value.(*Client)
		if now-time.Duration(c.known.renewed.Load()) <= g.cfg.Lease {
			break
		}
		g.remove(c)
	}
	holdsNothing := func(c *Client) bool { return !g.holds(c) && g.claimOf(c) == nil }
	var courteous []*Client
	for _, in := range t.byName {
		switch c := in.confirmed; {
		case c == nil || !g.expired(c, now):
		case w.lack != nil && holdsNothing(c):
			// The client holds nothing, so it can simply register again.
			g.remove(c)
			g.forget(c)
		default:
			courteous = append(courteous, c)
			if holdsNothing(c) {
				// The client has only sessions. Its record on disk is removed, so that after a
				// restart the grace period does not wait for the client.
				g.forget(c)
				c.known.reclaim.stored, c.known.reclaim.held = nil, 0
			}
		}
	}
	late := g.discourteous(courteous, now)
	var greedy []*Client
	if w.starved && len(late) == 0 {
		for _, c := range g.greedy(w.lack) {
			if holdsNothing(c) {
				g.remove(c)
				g.forget(c)
			} else {
				greedy = append(greedy, c)
			}
		}
	}
	w.swept, w.lack, w.starved, w.courteous = now, nil, false, len(courteous)
	g.release()
	m.evictBy(evictedTogether, late, Swept)
	m.evictBy(evictedTogether, greedy, Greedy)
}

// evictedTogether is the largest number of clients that the sweep evicts at a time. They share one
// wait for the disk, and none of them can start a request meanwhile.
const evictedTogether = 256

// evictBy evicts clients, n at a time, until the Manager is closed. If an eviction fails, a later
// sweep tries again.
func (m *Manager) evictBy(n int, all []*Client, why Why) {
	for some := range slices.Chunk(all, n) {
		select {
		case <-m.sweeper.stop:
			return
		default:
			_ = m.evict(some, why)
		}
	}
}
