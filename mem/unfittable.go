package mem

import (
	"cmp"
	"math"
	"slices"
)

// The next large request (p.current) waits for a contiguous block. No other request gets pages of
// the main zone meanwhile, so that enough of them become free. But a stalled file system keeps its
// blocks, which may lie so that no free run becomes long enough. Then the request is unfittable,
// and so are all requests of at least as many pages: the pool passes over them until such a block
// is free, or could become free. It serves other requests meanwhile.

const (
	// unfitTicks is how long a large request waits as the next one to be served before the pool
	// finds out whether a block for it can become free: 3 s. A group's blocks count as pinned if
	// the group has released no memory for 3 s.
	unfitTicks = 12
	// pinnedTicks is the age at which a held block counts as pinned in any case: 15 s. Pinned means
	// that the pool does not expect the block to be released soon.
	pinnedTicks = 60
)

// anySize is the value of p.fits while blocks of every size can become free.
const anySize = math.MaxInt32

// unfitLocked reports whether a request of n pages has to be passed over: no free block, and no
// block that can become free, is large enough (see judgeLocked). If so, it lowers p.unfitLeast to
// n.
func (p *Pool) unfitLocked(n int32) bool {
	if n <= p.fits || n < p.unfitLeast && p.main.has(n) {
		return false
	}
	p.unfitLeast = min(p.unfitLeast, n)
	return true
}

// judgeLocked sets p.fits to the size of the largest block that can become free. It does so once
// p.current has waited unfitTicks for its block, and in each tick after that. If p.current needs a
// larger block, it stops being the current request, so that others are served.
func (p *Pool) judgeLocked() {
	waits := p.current != nil && p.tick-p.currentTick >= unfitTicks
	if !waits && p.fits == anySize {
		return
	}
	p.fits = p.possibleLocked()
	if q := p.current; waits && q.need() > p.fits {
		p.current = nil
		p.dischargeLocked(q.share, q.group, q.need(), true)
		p.passLocked(q)
	}
}

// possibleLocked returns the length, in pages, of the longest part of the main zone that contains
// no pinned block.
func (p *Pool) possibleLocked() (pages int32) {
	var pinned []extent
	for _, b := range p.buffers {
		if b.share != nil && b.page < p.main.total &&
			(p.tick-b.group.since >= unfitTicks || p.tick-b.tick >= pinnedTicks) {
			pinned = append(pinned, b.extent)
		}
	}
	slices.SortFunc(pinned, func(a, b extent) int { return cmp.Compare(a.page, b.page) })
	from := int32(0)
	for _, e := range pinned {
		pages = max(pages, e.page-from)
		from = e.page + e.pages
	}
	return max(pages, p.main.total-from)
}
