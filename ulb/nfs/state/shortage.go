package state

import (
	"cmp"
	"slices"
	"time"
)

// A shortage is what a client was refused because there is no more of it: memory, places of
// clients, or open files of a file system.
type shortage struct {
	// all is how much there is, and used says how much of it is.
	all  int
	used func() int
	// has and takes are how much of it an address has, and a client.
	has   func(o *origin) int
	takes func(c *Client) int
}

func (m *Manager) ofMemory() *shortage {
	return &shortage{
		all: m.cfg.Memory, used: func() int { return m.files.usage.memory },
		has: func(o *origin) int { return o.memory }, takes: func(c *Client) int { return c.holding.memory },
	}
}

func (m *Manager) ofPlaces() *shortage {
	return &shortage{
		all: maxClients, used: func() int { return m.clients.confirmed },
		has: func(o *origin) int { return o.confirmed }, takes: func(*Client) int { return 1 },
	}
}

// Relieve has clients go whose leases ran out and that need not be kept, because another
// one was refused something that is not the Manager's. It returns at once, and may be
// called as often as a client likes to be refused.
func (m *Manager) Relieve() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.relieve(m.ofMemory(), false)
}

// relieve has clients go whose leases ran out and that need not be kept, because another
// one was refused something. starved: the address of that one has less than half its part,
// so that clients of another one that has more go, be it with a lease. It is called with
// m.mu held.
func (m *Manager) relieve(lack *shortage, starved bool) {
	w := &m.sweeper
	if w.lack == nil {
		time.AfterFunc(w.swept+relieveAfter-m.now(), m.wake)
	}
	if w.lack == nil || starved {
		w.lack = lack
	}
	w.starved = w.starved || starved
}

// relieveAfter is between two sweeps that clients bring about.
const relieveAfter = 20 * time.Millisecond

// greedy are clients that have to go although they have leases, so that addresses which
// have less than half their part get it: of the address that has most of what is short, so
// many that it has no more than its part. It is called with m.mu held.
func (m *Manager) greedy(lack *shortage) (all []*Client) {
	t, part := &m.clients, m.clients.part(lack.all)
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
	// The largest of them go; of those that are alike, those that hold least, and of these
	// those that have not been heard of for longest.
	slices.SortFunc(those, func(a, b one) int {
		return cmp.Or(cmp.Compare(b.takes, a.takes), cmp.Compare(a.c.holding.memory, b.c.holding.memory),
			cmp.Compare(a.c.known.renewed.Load(), b.c.known.renewed.Load()))
	})
	for left := lack.has(most); left > part && len(those) > 0; those = those[1:] {
		all = append(all, those[0].c)
		left -= those[0].takes
	}
	return all
}

// courtesyOf is how long c is kept without a lease. What it has locked stands against programs
// of this machine, whose locks send no client away: then that is two leases at most.
func (m *Manager) courtesyOf(c *Client) time.Duration {
	if c.holding.ranges > 0 {
		return min(m.cfg.Courtesy, 2*m.cfg.Lease)
	}
	return m.cfg.Courtesy
}

// discourteous are those of the courteous clients, whose leases ran out, that are not kept
// any longer: for too long a time; beyond how many there may be, the longest expired
// first; or where more than half of something is used that one of them was refused, or of
// memory, until it is not, those first whose address has most of it. It is called with m.mu
// held.
func (m *Manager) discourteous(courteous []*Client, now time.Duration) (late []*Client) {
	t, lack := &m.clients, m.sweeper.lack
	if lack == nil {
		lack = m.ofMemory()
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
		old := now-time.Duration(c.known.renewed.Load()) > m.cfg.Lease+m.courtesyOf(c)
		short := used > lack.all/2 && lack.takes(c) > 0
		if old || crowded || short || len(courteous)-len(late) > keep {
			full[o] = full[o] || crowded
			used -= lack.takes(c)
			late = append(late, c)
		}
	}
	return late
}
