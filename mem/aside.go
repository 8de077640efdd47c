package mem

import (
	"cmp"
	"math"
	"slices"
)

// The front (the line whose turn it is) waits for a contiguous block, and the main zone empties
// for it. But a stalled file system keeps its blocks, which may lie so that no free run is long
// enough. Then the pool sets the front aside, with all lines that ask for as many pages, and
// serves the others. A line set aside gets its turn back when such a block is free, or could
// become free.

const (
	// asideTicks is how long the front waits before the pool judges whether its block can become
	// free: 3 s.
	asideTicks = 12
	// pinnedTicks is the age at which a held block counts as pinned, even if its group releases
	// other blocks: 15 s.
	pinnedTicks = 60
)

// anySize is the value of p.fits if no request is too large to wait for.
const anySize = math.MaxInt32

// The functions below are called with p.mu held.

// setAside moves l from the pool's queue to the lines set aside.
func (p *Pool) setAside(l *line) {
	p.step(l)
	p.aside.push(l)
	p.asideLeast = min(p.asideLeast, l.head.pages)
	p.let(l)
}

// recall gives the turn back to lines set aside for which a block is free.
func (p *Pool) recall() {
	if p.main.has(p.asideLeast) {
		p.restore(func(n int32) bool { return p.main.has(n) })
	}
}

// restore gives the turn back to lines set aside if may accepts the pages of their first request.
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

// judge sets the front aside if its block cannot become free, and gives the turn back to other
// lines set aside if theirs can.
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

// possible returns the length, in pages, of the longest run in the main zone without a pinned
// block.
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

// still reports whether g has released nothing for asideTicks.
func (p *Pool) still(g *Group) bool { return p.tick-g.since >= asideTicks }
