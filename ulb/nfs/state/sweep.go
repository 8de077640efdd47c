package state

import (
	"cmp"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// sweeper is the Manager's background goroutine. It removes clients that the server no longer keeps,
// and their records. It ends opens that were not confirmed in time, and the grace period.
type sweeper struct {
	start time.Time
	woken chan struct{} // capacity 1
	stop  chan struct{}
	ended chan struct{}

	// Manager.mu guards the fields below.

	// swept is the time of the last sweep. lack and starved combine the arguments of all calls of
	// relieve since then; lack is nil if there was none.
	swept   time.Duration
	lack    *shortage
	starved bool
	// courteous is the number of clients without a valid lease that the last sweep kept or evicted.
	courteous int
	// tellRefused is the time from which the next refusal has an Event of the kind Refused.
	tellRefused time.Duration
}

// frees reports whether the next sweep can free something for a client that was refused: there are clients whose
// leases ran out, or an address is starved. The caller holds Manager.mu.
func (w *sweeper) frees() bool { return w.courteous > 0 || w.starved }

// Close ends the Manager's goroutine. The caller closes Config.Records afterwards. Close waits for no file
// system: before the caller closes one in which clients held locks, it calls Revoke.
func (m *Manager) Close() {
	m.giving.end()
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
		if m.hasMarked() {
			m.rewrite()
		}
		m.removeForgotten()
		m.sweepUnconfirmed()
		m.sweepClients()
	}
}

// sweepClients removes clients that did not confirm themselves within a lease, and clients that the
// server no longer keeps without a lease (discourteous). If relieve was called since the last sweep, it
// also removes all expired clients that hold nothing and may reclaim nothing. If relieve reported an
// address as starved, and no client without a lease is left to evict, it takes single opens (toTake) or,
// if the table of clients is full, evicts greedy clients.
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
		case c != nil && c.isHost():
			if g.hostIsIdle(c, now) {
				g.remove(c)
				g.forget(c)
			}
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
	var all takings
	if w.starved && len(late) == 0 {
		if w.lack.loser != nil {
			all = g.toTake(w.lack)
			greedy = all.clients
		} else {
			greedy = g.greedy(w.lack)
		}
		greedy = slices.DeleteFunc(greedy, func(c *Client) bool {
			if !holdsNothing(c) {
				return false
			}
			g.remove(c)
			g.forget(c)
			return true
		})
	}
	w.swept, w.lack, w.starved, w.courteous = now, nil, false, len(courteous)
	g.release()
	m.evictSome(late, Swept)
	m.evictSome(greedy, Greedy)
	m.takeAway(all)
}

// evictedTogether is the largest number of clients that the sweep evicts at a time. They share one wait
// for the disk, and none of them can start a request meanwhile.
const evictedTogether = 256

// evictSome evicts clients, some at a time, until Close. A later sweep repeats an eviction that fails.
func (m *Manager) evictSome(all []*Client, why Why) {
	for some := range slices.Chunk(all, evictedTogether) {
		select {
		case <-m.sweeper.stop:
			return
		default:
			_ = m.evict(some, why)
		}
	}
}

// A shortage is a resource that ran out for a client: bytes of memory, entries in the table of clients, or
// open files of a file system. It has the total amount, and those in use in all, by an address, by a client.
type shortage struct {
	all   int
	used  func() int
	has   func(o *origin) int
	takes func(c *Client) int

	// by is the address of the client that was refused. domain is the file system that lacks open files;
	// nil if the resource is another one.
	by     netip.Addr
	domain any
	// loser returns who loses an open so that the refused client gets what it asked for. short reports whether
	// to take more opens than this number. Both are nil if no client loses opens for this resource.
	loser func() (loser, bool)
	short func(taken int) bool
}

// ofMemory returns the shortage of memory, for which clients without a valid lease may have to go.
func (g *guard) ofMemory() *shortage {
	t := &g.files.memory
	return &shortage{
		all: g.cfg.Memory, used: func() int { return int(t.Held()) },
		has:   func(o *origin) int { return int(t.AddressHolds(o.address)) },
		takes: (*Client).memory,
	}
}

// ofMemoryFor returns the shortage of memory that c has met, for which others may lose opens.
func (g *guard) ofMemoryFor(c *Client) *shortage {
	m, t, lack := g.Manager, &g.files.memory, g.ofMemory()
	lack.by = c.known.address
	lack.loser = func() (loser, bool) { return (&guard{Manager: m}).memoryLoser(c) }
	lack.short = func(int) bool {
		// Take a little more than the client needs now, but stop when an eighth and this little are free.
		little := max(t.Size/64, 2*sizeMost)
		return t.Free() < t.Size/8+little && (t.Free() < little || !t.May(&c.holding.place, sizeMost))
	}
	return lack
}

func (g *guard) ofPlaces() *shortage {
	return &shortage{
		all: maxClients, used: func() int { return g.clients.confirmed },
		has: func(o *origin) int { return o.confirmed }, takes: func(*Client) int { return 1 },
	}
}

// Relieve makes the sweep run soon and remove clients whose leases ran out: see relieve. A package that
// limits something else, such as sessions, calls it each time that it refuses a client.
func (m *Manager) Relieve() {
	g := m.acquire()
	defer g.release()
	g.relieve(g.ofMemory(), false)
}

// relieve makes the sweep run soon, because a client was refused a resource (lack). The sweep then
// removes clients whose leases ran out: all that hold nothing, and others to free some of the resource
// (discourteous). starved is true if the refused client has no more than its part. Then the sweep may
// also take single opens from clients with valid leases (toTake), or evict such clients (greedy).
func (g *guard) relieve(lack *shortage, starved bool) {
	w := &g.sweeper
	if w.lack == nil {
		time.AfterFunc(w.swept+relieveAfter-g.now(), g.wake)
	}
	if w.lack == nil || starved {
		w.lack = lack
	}
	w.starved = w.starved || starved
}

// relieveAfter is the shortest time between two sweeps that relieve causes.
const relieveAfter = 20 * time.Millisecond

// greedy returns clients to evict although their leases are valid: those of the address that uses most
// of the short resource, as many as are needed to bring it down to its fair share (clients.part).
func (g *guard) greedy(lack *shortage) (all []*Client) {
	t, part := &g.clients, g.clients.part(lack.all)
	var most *origin
	for _, o := range t.from {
		if most == nil || lack.has(o) > lack.has(most) {
			most = o
		}
	}
	if most == nil || lack.has(most) <= part {
		return nil
	}
	type one struct {
		c     *Client
		takes int
	}
	var those []one
	for _, in := range t.byName {
		if c := in.confirmed; c != nil && c.known.origin == most {
			if n := lack.takes(c); n > 0 {
				those = append(those, one{c, n})
			}
		}
	}
	// Evict the largest users of the short resource first. Among equals evict those with the least
	// memory, then those that have been silent for longest.
	slices.SortFunc(those, func(a, b one) int {
		return cmp.Or(cmp.Compare(b.takes, a.takes), cmp.Compare(a.c.memory(), b.c.memory()),
			cmp.Compare(a.c.known.renewed.Load(), b.c.known.renewed.Load()))
	})
	for left := lack.has(most); left > part && len(those) > 0; those = those[1:] {
		all = append(all, those[0].c)
		left -= those[0].takes
	}
	return all
}

// discourteous returns the courteous clients (clients whose leases ran out) that the server no longer
// keeps. It looks first at those whose leases ran out first or, if more than half of the scarce
// resource (sweeper.lack, or else memory) is in use, at those of the addresses that use most of it. It
// returns a client if its courtesy time is over; if its address may confirm no more clients (one client
// of each such address); if more than half of the resource is still in use and the client uses some of
// it; or if otherwise more than maxCourteous clients would stay (half as many while maxClients/2 or
// more are confirmed).
func (g *guard) discourteous(courteous []*Client, now time.Duration) (late []*Client) {
	t, lack := &g.clients, g.sweeper.lack
	if lack == nil {
		lack = g.ofMemory()
	}
	used := lack.used()
	short := used > lack.all/2
	slices.SortFunc(courteous, func(a, b *Client) int {
		if short && a.known.origin != b.known.origin {
			if d := cmp.Compare(lack.has(b.known.origin), lack.has(a.known.origin)); d != 0 {
				return d
			}
		}
		return cmp.Compare(a.known.renewed.Load(), b.known.renewed.Load())
	})
	keep := maxCourteous
	if t.confirmed >= maxClients/2 {
		keep = maxCourteous / 2
	}
	full := map[*origin]bool{}
	for _, c := range courteous {
		o := c.known.origin
		crowded := !o.mayConfirm(t) && !full[o]
		courtesy := g.cfg.Courtesy
		if c.holding.ranges > 0 {
			// The locks also block programs of this machine, whose requests do not evict clients.
			courtesy = min(courtesy, 2*g.cfg.Lease)
		}
		old := now-time.Duration(c.known.renewed.Load()) > g.cfg.Lease+courtesy
		short := used > lack.all/2 && lack.takes(c) > 0
		if old || crowded || short || len(courteous)-len(late) > keep {
			full[o] = full[o] || crowded
			used -= lack.takes(c)
			late = append(late, c)
		}
	}
	return late
}

// maxCourteous is the largest number of clients without a valid lease that the server keeps. It
// keeps half as many while maxClients/2 clients or more are confirmed: see discourteous.
const maxCourteous = 1024

// Evict removes a client whose lease ran out, with all its state. It first removes the record on stable
// storage, so that the client cannot reclaim the state after a restart (RFC 8881 §8.4.3): it waits for
// the disk, and the caller holds no lock. If the client has renewed its lease meanwhile, Evict does
// nothing. If the record cannot be removed, the client stays, and Evict returns the error.
func (m *Manager) Evict(c *Client) error { return m.evict([]*Client{c}, Named) }

// evict is Evict for several clients, with one wait for the disk. It evicts clients with a valid lease only
// if the reason (why) is Greedy or Ordered. One eviction runs at a time.
func (m *Manager) evict(all []*Client, why Why) (err error) { return m.evictThose(all, why, nil) }

// evictThose is evict. It calls between as a piecewise does.
func (m *Manager) evictThose(all []*Client, why Why, between func() bool) (err error) {
	m.recording.lock()
	var condemned []*Client
	var records []Record
	var ends sync.WaitGroup // of clients that another goroutine ends
	g := m.acquire()
	for _, c := range all {
		if g.afterEnd(c, ends.Done) { // which cannot be called before g is released
			ends.Add(1)
			continue
		}
		if c.known.gone || !g.condemned(c, why == Greedy || why == Ordered) {
			continue
		}
		condemned = append(condemned, c)
		if c.known.reclaim.stored != nil || g.claimBefore(c) != nil {
			records = append(records, g.recordOf(c))
		}
	}
	g.release()
	if len(records) > 0 {
		err = m.wrote(m.cfg.Records.Remove(records))
	}
	p := m.inPieces(between)
	for _, c := range condemned {
		p.evicted(c, err == nil, why)
		p.step(1)
	}
	p.pause()
	m.recording.unlock() // before finish, which closes files: other goroutines wait for it
	p.finish()
	ends.Wait()
	return err
}

// condemned reports whether to evict c: its lease has run out, or anyhow is true. If so, c is dying from
// now on. condemned sets dying before it checks the lease: see BeginRequest.
func (g *guard) condemned(c *Client, anyhow bool) bool {
	c.known.dying.Store(true)
	if anyhow || g.expired(c, g.now()) {
		return true
	}
	c.known.dying.Store(false)
	return false
}

// evicted ends the eviction of c. It removes c if unrecorded is true: c has no record any more.
func (p *piecewise) evicted(c *Client, unrecorded bool, why Why) {
	if unrecorded {
		c.known.reclaim.stored = nil
		p.dropClaim(c)
	}
	switch {
	case c.known.gone:
	case !unrecorded:
		c.known.dying.Store(false)
	default:
		if p.holds(c) {
			p.events = append(p.events, &Event{Kind: Taken, Clients: []Record{p.recordOf(c)}, Why: why})
		}
		c.known.ending.Store(true) // dying is true too, so that the client gets no new state
		p.empty(c)
		p.remove(c)
	}
}
