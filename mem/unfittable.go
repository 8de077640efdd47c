package mem

import (
	"cmp"
	"math"
	"slices"
)

// The next request (p.next) waits for a contiguous block. No other request gets pages of the main
// zone meanwhile, so that enough of them become free. But a stalled file system keeps its blocks,
// which may lie so that no free run becomes long enough. Then the request is unfittable, and so are
// all requests of at least as many pages: the pool passes over them until such a block is free, or
// could become free. It serves other requests meanwhile.

const (
	// unfitTicks is how long a request waits as the next one to be served before the pool finds out
	// whether a block for it can become free: 3 s. A group's blocks count as pinned if the group
	// has released no memory for 3 s.
	unfitTicks = 12
	// pinnedTicks is the age at which a held block counts as pinned in any case: 15 s. Pinned means
	// that the pool does not expect the block to be released soon.
	pinnedTicks = 60
)

// anySize is the value of p.fits while blocks of every size can become free.
const anySize = math.MaxInt32

// unfitLocked reports whether a request of n pages has to be passed over: no free block, and no
// block that can become free, is large enough (see judgeLocked). If so, it lowers p.unfitLeast to
// n, which spares the next call a search.
func (p *Pool) unfitLocked(n int32) bool {
	if n <= p.fits || n < p.unfitLeast && p.main.has(n) {
		return false
	}
	p.unfitLeast = min(p.unfitLeast, n)
	return true
}

// judgeLocked sets p.fits to the length of the longest part of the main zone that contains no
// pinned block. It does so once p.next has waited unfitTicks for its block, and in each tick after
// that. If p.next needs a longer block, others are served from now on.
func (p *Pool) judgeLocked() {
	if p.fits == anySize && (p.next == nil || p.tick-p.nextTick < unfitTicks) {
		return
	}
	var pinned []extent
	for _, b := range p.buffers {
		if b.share != nil && b.page < p.main.total &&
			(p.tick-b.group.since >= unfitTicks || p.tick-b.tick >= pinnedTicks) {
			pinned = append(pinned, b.extent)
		}
	}
	slices.SortFunc(pinned, func(a, b extent) int { return cmp.Compare(a.page, b.page) })
	p.fits = 0
	from := int32(0)
	for _, e := range pinned {
		p.fits = max(p.fits, e.page-from)
		from = e.page + e.pages
	}
	p.fits = max(p.fits, p.main.total-from)
}
