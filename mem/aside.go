package mem

import (
	"cmp"
	"math"
	"slices"
)

// The front waits for a contiguous block, and the main zone empties for it. But
// what a file system that stalls holds does not come back, and may lie so that
// no block is left. Then the front is set aside, with all lines that ask for so
// much, and others go on. It has its turn again when there is such a block, or
// when one could come to be.

const (
	// asideTicks is how long the front waits before it is judged whether its
	// block can come: 3 s.
	asideTicks = 12
	// pinnedTicks is how long a block is held before it counts as pinned, even
	// if its group gives others back: 15 s.
	pinnedTicks = 60
)

// anySize is p.fits where all requests may have a turn.
const anySize = math.MaxInt32

// The functions below are called with p.mu held.

// setAside takes l out of the pool's queue.
func (p *Pool) setAside(l *line) {
	p.step(l)
	p.aside.push(l)
	p.asideLeast = min(p.asideLeast, l.head.pages)
	p.let(l)
}

// recall gives lines their turn back for which there is a block.
func (p *Pool) recall() {
	p.main.cool()
	if p.main.has(p.asideLeast) {
		p.restore(func(n int32) bool { return p.main.has(n) })
	}
}

// restore gives lines their turn back that may have so many pages.
func (p *Pool) restore(may func(n int32) bool) {
	p.asideLeast = anySize
	for l := p.aside.tail; l != nil; {
		prev := l.prev
		if n := l.head.pages; !may(n) {
			p.asideLeast = min(p.asideLeast, n)
		} else {
			p.leave(l)
			if p.stand(l); l.turn != nil && l.turn.queue == &p.large {
				l.promote()
			}
		}
		l = prev
	}
	if p.aside.head == nil {
		p.fits = anySize
	}
}

// judge sets the front aside if its block will not come, and gives others that
// were set aside their turn back if theirs may.
func (p *Pool) judge() {
	waits := p.front != nil && p.tick-p.frontTick >= asideTicks
	if !waits && p.aside.head == nil {
		p.fits = anySize
		return
	}
	fits := p.possible()
	if l := p.front; waits && l.head.pages > fits {
		p.front = nil
		p.discharge(l.share, l.group, l.head.pages, true)
		p.setAside(l)
		p.unpark(l.share)
		p.admitAll()
	}
	p.fits = fits
	p.restore(func(n int32) bool { return n <= fits })
}

// possible is how many pages the longest run in the main zone has that no pinned
// block interrupts.
func (p *Pool) possible() (pages int32) {
	pinned := p.pinnedNow[:0]
	for _, b := range p.buffers {
		if b.share != nil && b.page < p.main.total &&
			(p.still(b.group) || p.tick-b.tick >= pinnedTicks) {
			pinned = append(pinned, b.extent)
		}
	}
	slices.SortFunc(pinned, func(a, b extent) int { return cmp.Compare(a.page, b.page) })
	from := int32(0)
	for _, e := range pinned {
		pages = max(pages, e.page-from)
		from = e.page + e.pages
	}
	p.pinnedNow = pinned
	return max(pages, p.main.total-from)
}

// still says that g has given nothing back for asideTicks.
func (p *Pool) still(g *Group) bool { return p.tick-g.since >= asideTicks }

// listen notes which groups gave memory back since the last tick.
func (p *Pool) listen() {
	for _, g := range p.slots {
		if g != nil && (g.released != g.seen || g.held == 0) {
			g.seen, g.since = g.released, p.tick
		}
	}
}
