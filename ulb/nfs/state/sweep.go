package state

import (
	"cmp"
	"slices"
	"time"
)

// sweeper is the Manager's goroutine: it removes clients in whom nobody believes any
// more, removes their records, ends what was opened and not confirmed, and the time of
// grace.
type sweeper struct {
	start time.Time
	woken chan struct{} // capacity 1
	stop  chan struct{}
	ended chan struct{}
	// swept is when the last sweep was; short: relieve was called since, and starved is
	// its argument. They are guarded by Manager.mu.
	swept          time.Duration
	short, starved bool
}

func (m *Manager) beginSweep() {
	m.sweeper.woken = make(chan struct{}, 1)
	m.sweeper.stop = make(chan struct{})
	m.sweeper.ended = make(chan struct{})
	go m.sweepOn()
}

// Close ends the Manager's goroutine. The Records are their owner's to close, later.
func (m *Manager) Close() {
	close(m.sweeper.stop)
	<-m.sweeper.ended
}

// wake has the sweep look now.
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
		m.removeForgotten()
		m.sweepUnconfirmed()
		m.sweepClients()
	}
}

// Relieve has clients go whose leases ran out and that need not be kept, because another
// one was refused something. It returns at once, and may be called as often as a client
// likes to be refused.
func (m *Manager) Relieve() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.relieve(false)
}

// relieve is Relieve with m.mu held. starved: the address of the client that was refused
// has less than half its part, so that clients of another one that has more go, be it with
// a lease.
func (m *Manager) relieve(starved bool) {
	w := &m.sweeper
	w.starved = w.starved || starved
	if !w.short {
		w.short = true
		time.AfterFunc(w.swept+relieveAfter-m.now(), m.wake)
	}
}

// relieveAfter is between two sweeps that clients bring about.
const relieveAfter = 20 * time.Millisecond

// sweepClients removes clients that did not confirm themselves within a lease, and those
// whose courtesy has ended: where something is short, all that hold nothing.
func (m *Manager) sweepClients() {
	var gone afterwards
	m.mu.Lock()
	now := m.now()
	t := &m.clients
	for e := t.unconfirmed.Front(); e != nil; e = t.unconfirmed.Front() {
		c := e.Value.(*Client)
		if now-time.Duration(c.known.renewed.Load()) <= m.cfg.Lease {
			break
		}
		gone.add(m.remove(c))
	}
	var courteous []*Client
	for _, in := range t.byName {
		switch c := in.confirmed; {
		case c == nil || !m.expired(c, now):
		case m.sweeper.short && !m.holds(c) && m.claimOf(c) == nil:
			// There is nothing to keep for it: it comes again as it came first.
			gone.add(m.remove(c))
			m.forget(c)
		default:
			courteous = append(courteous, c)
		}
	}
	late := m.discourteous(courteous, now)
	var greedy []*Client
	if m.sweeper.starved && len(late) == 0 {
		greedy = slices.DeleteFunc(m.greedy(), func(c *Client) bool {
			nothing := !m.holds(c) && m.claimOf(c) == nil
			if nothing {
				gone.add(m.remove(c))
				m.forget(c)
			}
			return nothing
		})
	}
	m.sweeper.swept, m.sweeper.short, m.sweeper.starved = now, false, false
	m.mu.Unlock()
	gone.run()
	for i, c := range slices.Concat(late, greedy) {
		select {
		case <-m.sweeper.stop:
			return
		default:
			m.evict(c, i >= len(late)) // which is tried again, where it fails
		}
	}
}

// greedy are clients that have to go although they have leases, so that addresses which
// have less than half their part get it: of the address that has most of what is short, so
// many that it has no more than its part. It is called with m.mu held.
func (m *Manager) greedy() (all []*Client) {
	t := &m.clients
	// What is short: memory, or else places.
	part, has := t.part(m.cfg.Memory), func(o *origin) int { return o.memory }
	takes := func(c *Client) int { return c.holding.memory }
	if !m.pressed() {
		part, has = t.part(maxClients), func(o *origin) int { return o.confirmed }
		takes = func(c *Client) int { return 1 }
	}
	var most *origin
	for _, o := range t.from {
		if most == nil || has(o) > has(most) {
			most = o
		}
	}
	if most == nil || has(most) <= part {
		return nil
	}
	for _, in := range t.byName {
		if c := in.confirmed; c != nil && c.known.origin == most && takes(c) > 0 {
			all = append(all, c)
		}
	}
	// The largest of them go; of those that are alike, those that hold least, and of these
	// those that have not been heard of for longest.
	slices.SortFunc(all, func(a, b *Client) int {
		return cmp.Or(cmp.Compare(takes(b), takes(a)), cmp.Compare(a.holding.memory, b.holding.memory),
			cmp.Compare(a.known.renewed.Load(), b.known.renewed.Load()))
	})
	left := has(most)
	for i, c := range all {
		if left <= part {
			return all[:i]
		}
		left -= takes(c)
	}
	return all
}

// discourteous are those of the courteous clients, whose leases ran out, that are not kept
// any longer: for too long a time; beyond how many there may be, the longest expired
// first; or where memory runs short, until it does not, those first whose address holds
// most. It is called with m.mu held.
func (m *Manager) discourteous(courteous []*Client, now time.Duration) (late []*Client) {
	t := &m.clients
	slices.SortFunc(courteous, func(a, b *Client) int {
		if m.pressed() && a.known.origin != b.known.origin {
			if d := cmp.Compare(b.known.origin.memory, a.known.origin.memory); d != 0 {
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
	freed := 0
	for _, c := range courteous {
		o := c.known.origin
		crowded := !o.mayConfirm(t) && !full[o]
		old := now-time.Duration(c.known.renewed.Load()) > m.cfg.Lease+m.cfg.Courtesy
		short := m.files.usage.memory-freed > m.cfg.Memory/2
		if old || crowded || short || len(courteous)-len(late) > keep {
			full[o] = full[o] || crowded
			freed += c.holding.memory
			late = append(late, c)
		}
	}
	return late
}
