package mem

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// A Holder is the connection that a Share belongs to, as the pool sees it when
// memory is short. Both methods are called without a lock, on a goroutine of the
// pool, and must not block.
type Holder interface {
	// Progress says how many bytes moved between this process and the peer so
	// far, and whether what the share holds waits for the peer now: for the rest
	// of a message, for an RDMA Read to be answered, for a reply to be taken.
	// What a file system or an executor keeps does not.
	Progress() (moved uint64, waitsForPeer bool)
	// End tells the holder to end the connection, so that what its share holds
	// comes back. It is called once at most, and perhaps while the share is
	// being closed, or after. The error says why, and is an ErrNoProgress.
	End(why error)
}

// ErrNoProgress: a share was ended because memory was short and its peer did
// not move what the share held.
var ErrNoProgress = errors.New("mem: memory is short, and the peer makes no progress")

const (
	// sweepEvery is a tick: how often the pool looks while memory is short.
	sweepEvery = 250 * time.Millisecond
	// patienceTicks is how long a request waits before shares are ended for it:
	// more than 1 s.
	patienceTicks = 4
	// grace is how long a peer may stay below the least rate.
	grace = 2500 * time.Millisecond
	// ticksToForgive is how often blame is looked after: every 5 s.
	ticksToForgive = 20
	// endedTicks is how long what an ended share holds counts as coming back: 2 s.
	endedTicks = 8
)

// leastRate is how many bytes a second a peer has to move while memory is short,
// for a share that holds so many bytes: all of it in 8 s, or 1 MiB a second. A
// byte a second is no progress.
func leastRate(held int64) float64 { return float64(min(held/8, 1<<20)) }

// progress is what the sweeper knows of a share: the time since which the peer
// stays below the least rate. Only told and toldTick are guarded by pool.mu, the
// others are the sweep's, of which there is one at a time.
type progress struct {
	told     bool // End was called, or is about to be
	toldTick uint64

	tick  uint64 // of the last look
	begun time.Time
	moved uint64
	least int64 // held at all times since, in bytes
	now   int64 // held, in bytes
	slow  time.Duration
}

// look asks how far the share's peer got.
func (s *Share) look(tick uint64, now time.Time) {
	moved, waits := s.holder.Progress()
	m := &s.progress
	again := m.tick+1 == tick
	m.tick, m.least, m.slow = tick, min(m.least, m.now), now.Sub(m.begun)
	if again && waits && moved >= m.moved {
		enough := leastRate(m.least) * m.slow.Seconds()
		if m.slow < time.Second || float64(moved-m.moved) < enough {
			return
		}
	}
	m.begun, m.moved, m.least, m.slow = now, moved, m.now, 0
}

// strained says whether the pool has anything to look after, and lets Pressed
// say whether memory is short. p.mu is held.
func (p *Pool) strained() bool {
	p.short = p.front != nil || p.large.head != nil || p.small.head != nil || p.aside.head != nil ||
		p.overdrawn() > 0
	if p.short != p.pressed.Load() {
		p.pressed.Store(p.short)
	}
	return p.short || len(p.crowded) > 0 || p.swollen()
}

// watch sees to it that the pool is swept while there is need. p.mu is held.
func (p *Pool) watch() {
	if p.strained() && p.sweeper == nil && !p.closed {
		// What was noted of the shares is of another time.
		p.tick++
		p.sweeper = time.AfterFunc(sweepEvery, p.sweep)
	}
}

// sweep is what the pool does each tick while memory is short.
func (p *Pool) sweep() {
	p.mu.Lock()
	p.admitAll()
	p.grant()
	if p.closed || !p.strained() {
		p.sweeper = nil
		p.deliver()
		return
	}
	p.look()
	tick := p.tick
	asked := p.asked[:0]
	for _, s := range p.shares {
		if s.holder != nil && !s.told && (s.pages > 0 || s.heap > 0) {
			s.now = int64(s.pages)*PageSize + s.heap
			asked = append(asked, s)
		}
	}
	p.asked = asked
	p.deliver()

	now := time.Now()
	for _, s := range asked {
		s.look(tick, now)
	}

	p.mu.Lock()
	ended := p.condemn(asked, now)
	keep := int64(p.total()) - p.heapPages
	swollen := p.swollen()
	p.mu.Unlock()
	for _, s := range ended {
		s.holder.End(fmt.Errorf("%w: of %d bytes held, less than %d moved in %v",
			ErrNoProgress, s.now, int64(leastRate(s.least)*s.slow.Seconds()), s.slow.Round(time.Millisecond)))
	}
	if swollen {
		p.trim(int32(max(keep, 0)), true)
	}
	clear(asked)
	p.mu.Lock()
	if !p.closed {
		p.sweeper.Reset(sweepEvery)
	}
	p.mu.Unlock()
}

// look sees to lines that wait for too long. p.mu is held.
func (p *Pool) look() {
	p.tick++
	p.listen()
	if p.tick%ticksToForgive == 0 {
		p.forgive(time.Now())
	}
	p.promote()
	p.judge()
	p.grant()
}

// promote makes small lines that waited too long wait for the main zone, like any
// other: there they get their turn, however many smaller ones there are.
func (p *Pool) promote() {
	p.small.each(func(l *line) bool {
		if p.late(l) {
			p.leave(l)
			p.join(&p.large, l)
		}
		return true
	})
}

// late says whether the first of l waits for longer than it should.
func (p *Pool) late(l *line) bool { return p.tick-l.head.tick > patienceTicks }

// condemn chooses among the shares asked those that are to be ended, largest
// holders first: by client, then by share. p.mu is held.
//
// No share is ended for what it waits for itself, nor for requests that it could
// not help: those that wait for a group are helped by what is held in it.
func (p *Pool) condemn(asked []*Share, now time.Time) []*Share {
	p.want()
	need := max(p.overdrawn(), 0)
	all := p.wants
	for _, g := range p.crowded {
		all += g.wants
	}
	if need += all; need <= 0 {
		return nil
	}
	p.leaving = slices.DeleteFunc(p.leaving, func(s *Share) bool { return p.tick-s.toldTick >= endedTicks })
	for _, s := range p.leaving {
		need -= int64(s.pages) + pagesIn(s.heap)
	}
	var stuck []*Share
	for _, s := range asked {
		if s.slow >= s.client.grace() && !s.told && !s.closed && p.helps(s) {
			stuck = append(stuck, s)
			s.client.stuck += s.now
		}
	}
	slices.SortStableFunc(stuck, func(a, b *Share) int {
		return cmp.Or(cmp.Compare(b.client.stuck, a.client.stuck), cmp.Compare(a.client.id, b.client.id), cmp.Compare(b.now, a.now))
	})
	for _, s := range stuck {
		s.client.stuck = 0
	}
	for i, s := range stuck {
		if need <= 0 {
			return stuck[:i]
		}
		s.told, s.toldTick = true, p.tick
		p.leaving = append(p.leaving, s)
		s.client.ended++
		s.client.blamed, s.client.until = true, now.Add(blame)
		p.ended++
		need -= int64(s.pages) + pagesIn(s.heap)
	}
	return stuck
}

// want adds up what lines waited too long for: of the pool, and in each group.
func (p *Pool) want() {
	p.wants = 0
	add := func(l *line) bool {
		if p.late(l) {
			p.wants += l.pages
		}
		return true
	}
	p.large.each(add)
	p.small.each(add)
	for l := p.aside.head; l != nil; l = l.next {
		add(l)
	}
	for _, g := range p.crowded {
		g.wants = 0
		g.waiting.each(func(l *line) bool {
			if p.late(l) {
				g.wants += l.pages
			}
			return true
		})
	}
}

// helps says whether another share would have more of what it waits for, if s were
// ended: one of another client, or of another connection of the same.
func (p *Pool) helps(s *Share) bool {
	if p.overdrawn() > 0 {
		return true
	}
	own := int64(0)
	for l := s.lines; l != nil; l = l.mate {
		if p.late(l) && (l.in == &p.aside || l.turn != nil && (l.turn.queue == &p.large || l.turn.queue == &p.small)) {
			own += l.pages
		}
	}
	if p.wants > own {
		return true
	}
	for _, g := range p.crowded {
		if s.of(g) == 0 || g.wants == 0 {
			continue
		}
		own := int64(0)
		for l := s.lines; l != nil; l = l.mate {
			if p.late(l) && l.turn != nil && l.turn.queue == &g.waiting {
				own += l.pages
			}
		}
		if g.wants > own {
			return true
		}
	}
	return false
}
