package state

import (
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

// sweepClients removes clients that did not confirm themselves within a lease, and those
// whose courtesy has ended.
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
	late := m.discourteous(now)
	m.mu.Unlock()
	gone.run()
	for _, c := range late {
		select {
		case <-m.sweeper.stop:
			return
		default:
			m.Evict(c) // which is tried again, where it fails
		}
	}
}

// discourteous are the clients whose leases ran out and that are not kept any longer: for
// too long a time, or beyond how many there may be, the longest expired first. It is
// called with m.mu held.
func (m *Manager) discourteous(now time.Duration) (late []*Client) {
	t := &m.clients
	var courteous []*Client
	for _, in := range t.byName {
		if c := in.confirmed; c != nil && m.expired(c, now) {
			courteous = append(courteous, c)
		}
	}
	slices.SortFunc(courteous, func(a, b *Client) int {
		return int(min(max(a.known.renewed.Load()-b.known.renewed.Load(), -1), 1))
	})
	keep := maxCourteous
	if t.confirmed >= maxClients {
		keep = maxCourteous / 2
	}
	full := map[*origin]bool{}
	for _, c := range courteous {
		o := t.from[c.known.address]
		crowded := o.confirmed >= maxClientsFrom && !full[o]
		old := now-time.Duration(c.known.renewed.Load()) > m.cfg.Lease+m.cfg.Courtesy
		if old || crowded || len(courteous)-len(late) > keep {
			full[o] = full[o] || crowded
			late = append(late, c)
		}
	}
	return late
}
