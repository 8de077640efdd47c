package mem

// A Group limits the memory of several Requests together, such as those for one file system, so that
// calls which stall while they hold memory leave enough for others. A Request beyond the limit
// (Config.Group) waits, does not count as held memory, and delays no other Group. One that is larger
// than the limit is granted when the Group holds no page of the main zone.
type Group struct {
	pool *Pool

	// Guarded by pool.mu.
	held    int32        // pages that it holds, those of the reserve included
	main    int32        // pages of the main zone that it holds
	parts   parts        // what clients hold of main
	queues  int          // number of requestQueues for it
	waiting waitingPlace // its requestQueues that wait for the main zone
	small   waitingPlace // its requestQueues that wait for the reserve
	blocked bool         // true if its next request waits for its limit
	bounded int          // number of rows of waiting that are bounded
	since   uint64       // Pool.tick when it last released memory, or began to hold some
}

// groupLocked returns g. If g is nil, it returns the Group of all requests that name none.
func (p *Pool) groupLocked(g *Group) *Group {
	if g == nil {
		return &p.ungrouped
	}
	return g
}

// NewGroup makes a Group. It needs no Close: the pool has no reference to an idle Group.
func (p *Pool) NewGroup() *Group {
	g := new(Group)
	g.init(p)
	return g
}

func (g *Group) init(p *Pool) {
	g.pool, g.waiting.group, g.small.group = p, g, g
	g.small.reserve = true
}

// LimitGroups lowers the limit of each Group to n bytes, unless it is lower already. A Group that
// holds more keeps its memory until its calls release it.
func (p *Pool) LimitGroups(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.groupLimit = int32(min(int64(p.groupLimit), n/PageSize))
}

// Idle reports whether the group holds nothing and no request waits for it.
func (g *Group) Idle() bool {
	g.pool.mu.Lock()
	defer g.pool.mu.Unlock()
	return g.held == 0 && g.queues == 0
}

// InUse returns how many bytes the group holds now.
func (g *Group) InUse() int64 {
	g.pool.mu.Lock()
	defer g.pool.mu.Unlock()
	held := g.held
	if q := g.pool.current; q != nil && q.group == g {
		held -= q.need()
	}
	return int64(held) * PageSize
}

// roomLocked reports whether the limit allows g to hold n more pages of the main zone. A Group
// that holds no page of the main zone may always have n pages. The requests that name no Group
// have no limit.
func (g *Group) roomLocked(n int32) bool {
	limit := g.limitLocked()
	return limit == noLimit || g.main == 0 || g.main+n <= limit
}

// limitLocked returns how many pages of the main zone g may hold, or noLimit. The rule of package fair does not
// apply: nothing brings back the memory of a file system that does not answer, so a second and a third one must not
// have equal parts, which would use up the memory together. Half of the rest leaves something, however many hang.
func (g *Group) limitLocked() int32 {
	p := g.pool
	if g == &p.ungrouped || p.groupLimit == noLimit {
		return noLimit
	}
	return min(p.groupLimit, (p.main.total-(p.grouped-g.main))/2)
}

// holdLocked adds n pages, which may be negative, to the pages that g holds. The parameter main is
// true for pages of the main zone.
func (g *Group) holdLocked(n int32, main bool) {
	g.held += n
	if !main {
		return
	}
	g.main += n
	if p := g.pool; g != &p.ungrouped {
		p.grouped += n
	}
}

// A holding counts the pages that a share or a client holds: all of them, and those of each Group.
type holding struct {
	pages int32
	in    []heldIn // an entry with 0 pages is free for another Group
}

type heldIn struct {
	group *Group
	pages int32
	part  part // nil in the holding of a share
}

// add adds n pages of g, which may be negative. It returns the entry of g.
func (h *holding) add(g *Group, n int32) *heldIn {
	h.pages += n
	free := len(h.in)
	for i := range h.in {
		in := &h.in[i]
		if in.group == g {
			in.pages += n
			return in
		}
		if in.pages == 0 {
			free = i
		}
	}
	if free == len(h.in) {
		h.in = append(h.in, heldIn{})
	}
	in := &h.in[free]
	in.group, in.pages = g, n
	return in
}

// of returns the number of pages of h that belong to g.
func (h *holding) of(g *Group) int32 {
	if in := h.inGroup(g); in != nil {
		return in.pages
	}
	return 0
}

// inGroup returns the entry of g, or nil.
func (h *holding) inGroup(g *Group) *heldIn {
	for i := range h.in {
		if h.in[i].group == g {
			return &h.in[i]
		}
	}
	return nil
}
