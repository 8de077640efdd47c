package mem

import "math"

// Several groups divide a limit: that of a share, or the main zone. Each group always has its
// floor, because a stalled file system keeps its memory for as long as it stalls. The memory
// above the floors, the commons, goes to any group, first come, first served.
//
// Floors and commons add up to the limit. A group that holds nothing may have one request larger
// than its floor if there are pages for it; otherwise a small ceiling could never serve that
// request.

const (
	// floorLeast is a floor's least size, where the limit allows: one READ or WRITE of 1 MiB,
	// with room for its header.
	floorLeast = (1<<20 + 64<<10) / PageSize
	// floorMost is a floor's largest size. More is not needed to continue working.
	floorMost = (16 << 20) / PageSize
)

// parts is the division of a limit, in pages.
type parts struct {
	floor, commons int32
}

// share divides a limit among the given number of groups, plus one for the ungrouped requests.
// With a single group there is no floor: it may have everything.
func share(limit, groups int32) parts {
	if groups <= 1 {
		return parts{0, math.MaxInt32}
	}
	n := groups + 1
	floor := min(max(min(limit/(2*n), floorMost), floorLeast), limit/n)
	return parts{floor, limit - n*floor}
}

// above returns how many pages of the commons a group with n pages uses.
func (d parts) above(n int32) int32 { return max(0, n-d.floor) }

// A holding counts the pages of a share or a client: in all, and by slot of each group.
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

// of returns how many pages of it belong to g.
func (h *holding) of(g *Group) int32 {
	if g.held == 0 || int(g.slot) >= len(h.by) {
		return 0
	}
	return h.by[g.slot]
}

// lets reports whether a holding with the division d may grow by n pages in g without taking
// another group's floor.
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
