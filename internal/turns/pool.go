package turns

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// A Pool lends a limited number of units, such as buffers. Borrowers that wait for one get it in
// turn, as in a Line. A borrower keeps its unit only while its goroutine can run, and gives it back
// before it waits for anything. So a waiter waits only for borrowers that are at work.
type Pool[T any] struct {
	// Most is the largest number of units, without those that Patience adds. New makes a unit.
	Most int
	New  func() T
	// If borrowers wait, and no unit has been given back for the time Patience, New makes an
	// additional unit, because the borrowers with units are probably stuck. 0 means that borrowers
	// wait on.
	Patience time.Duration

	mu     sync.Mutex
	units  int // units that exist, lent and free
	free   []T
	line   Line[*Borrower[T], *Borrower[T]] // if a borrower waits, no unit is free
	wanted atomic.Bool                      // a borrower waits
	given  uint64                           // how often a unit was given back
}

// A Borrower is a connection that uses the units of a Pool, at most one at a time.
type Borrower[T any] struct {
	Address netip.Addr // of the client (package clientaddr)

	place Place[*Borrower[T], *Borrower[T]]
	lent  chan T // delivers the unit, or is closed by End
	ended bool
	// missed is the time at which b first found another borrower waiting, since b borrowed its unit.
	// It is zero if b has not found one. Only b's goroutine uses it.
	missed time.Time
}

// Borrow lends b a unit. If none is free, it waits for one. It returns false if b has ended.
func (p *Pool[T]) Borrow(b *Borrower[T]) (unit T, ok bool) {
	b.missed = time.Time{}
	p.mu.Lock()
	n := len(p.free)
	switch {
	case b.ended:
		p.mu.Unlock()
		return unit, false
	case n > 0:
		unit = p.free[n-1]
		p.free = p.free[:n-1]
		p.mu.Unlock()
		return unit, true
	case p.units < p.Most:
		p.units++
		p.mu.Unlock()
		return p.New(), true
	}
	if b.lent == nil {
		b.lent, b.place.Value = make(chan T, 1), b
	}
	p.line.Join(&b.place, b.Address, b)
	p.wanted.Store(true)
	given := p.given
	p.mu.Unlock()
	if p.Patience == 0 {
		unit, ok = <-b.lent
		return unit, ok
	}
	return p.await(b, given)
}

// await waits for Borrow, if the Pool has a Patience. The parameter given is the value of
// Pool.given when the wait began.
func (p *Pool[T]) await(b *Borrower[T], given uint64) (unit T, ok bool) {
	timer := time.NewTimer(p.Patience)
	defer timer.Stop()
	for {
		select {
		case unit, ok = <-b.lent:
			return unit, ok
		case <-timer.C:
		}
		p.mu.Lock()
		if stuck := p.given == given; stuck && b.place.Waits() {
			p.leave(b)
			p.units++
			p.mu.Unlock()
			return p.New(), true
		}
		given = p.given
		p.mu.Unlock()
		timer.Reset(p.Patience)
	}
}

// GiveBack ends the use of a unit. The next waiting borrower gets it.
func (p *Pool[T]) GiveBack(unit T) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.given++
	switch next := p.line.Next(); {
	case next != nil:
		p.wanted.Store(p.line.Len() > 0)
		next.Value.lent <- unit
	case p.units > p.Most:
		p.units--
	default:
		p.free = append(p.free, unit)
	}
}

// Overdue reports whether b, which has a unit, should give it back, because other borrowers have
// waited for longer than `most`. Only b's goroutine may call it. The time runs from the first call
// that finds another borrower waiting, since b borrowed its unit.
func (p *Pool[T]) Overdue(b *Borrower[T], most time.Duration) bool {
	return p.wanted.Load() && b.overdue(most)
}

func (b *Borrower[T]) overdue(most time.Duration) bool {
	if b.missed.IsZero() {
		b.missed = time.Now()
		return false
	}
	return time.Since(b.missed) >= most
}

// Wanted reports whether a borrower waits.
func (p *Pool[T]) Wanted() bool { return p.wanted.Load() }

// End ends the wait of b for a unit, because its connection ends. b gets no further unit.
func (p *Pool[T]) End(b *Borrower[T]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b.ended = true
	if b.place.Waits() {
		p.leave(b)
		close(b.lent)
	}
}

func (p *Pool[T]) leave(b *Borrower[T]) {
	p.line.Leave(&b.place)
	p.wanted.Store(p.line.Len() > 0)
}

// Count returns the number of units that exist, and how many of them are lent.
func (p *Pool[T]) Count() (units, lent int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.units, p.units - len(p.free)
}

// Waits reports whether b waits for a unit of p.
func (p *Pool[T]) Waits(b *Borrower[T]) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return b.place.Waits()
}
