package mem

import "math"

// Several groups share a limit, a share's or the main zone, so that each finds
// room whatever the others hold: a file system that stalls holds what it has for
// as long as it stalls. Each group is sure of a floor. What lies above the
// floors is common: any group may have it, until it is gone.
//
// With all groups at the most that they may hold, the sum is the limit: floors
// and commons make up the whole of it. A group that holds nothing may have one
// request larger than its floor where there are pages for it, or a small ceiling
// could never serve it.

const (
	// floorLeast is a floor's least size, where the limit allows: one READ or
	// WRITE of 1 MiB, with room for its words.
	floorLeast = (1<<20 + 64<<10) / PageSize
	// floorMost is a floor's largest size. More is not needed to go on working.
	floorMost = (16 << 20) / PageSize
)

// parts says how a limit is shared out, in pages.
type parts struct {
	floor, commons int32
}

// share shares out a limit among the groups named, and the ungrouped requests as
// one more. A single group shares with no other: it may have everything.
func share(limit, groups int32) parts {
	if groups <= 1 {
		return parts{0, math.MaxInt32}
	}
	n := groups + 1
	floor := min(max(min(limit/(2*n), floorMost), floorLeast), limit/n)
	return parts{floor, limit - n*floor}
}

// above is how much of the commons a group takes that holds n pages.
func (d parts) above(n int32) int32 { return max(0, n-d.floor) }

// A holding is what a share or a client holds, in pages: in all, and by slot of
// the groups.
type holding struct {
	pages int32
	by    []int32
}

func (h *holding) add(g *Group, n int32) {
	h.pages += n
	if int(g.slot) >= len(h.by) {
		h.by = append(h.by, make([]int32, int(g.slot)+1-len(h.by))...)
	}
	h.by[g.slot] += n
}

// of is how much of it is held in g.
func (h *holding) of(g *Group) int32 {
	if g.held == 0 || int(g.slot) >= len(h.by) {
		return 0
	}
	return h.by[g.slot]
}

// lets says whether a holding that is shared out by d may grow by n pages in g,
// as far as other groups are concerned.
func (h *holding) lets(d parts, g *Group, n int32) bool {
	if h.pages+n <= d.commons {
		return true
	}
	have := h.of(g)
	if have == 0 || have+n <= d.floor {
		return true
	}
	taken := d.above(have+n) - d.above(have)
	for _, pages := range h.by {
		taken += d.above(pages)
	}
	return taken <= d.commons
}
