package mem

// A Group bounds the memory that all calls into one file system may hold of a Pool together,
// whatever their shares, because all of them may stall with it. A request that names a Group
// counts in the Group and in its share. Requests that name none count in a common Group without a
// limit of its own.
//
// If a Group is at its limit, a request waits in the Group, charged to nothing, and delays no
// other Group. In a Group, clients take turns as in the pool. A request larger than the limit is
// granted when the Group holds nothing.
//
// A Group takes at most half of what the other Groups leave. So if one file system after the other
// stalls, each leaves as much to the others as it has.
type Group struct {
	pool *Pool

	// Guarded by pool.mu.
	held    int32 // pages
	main    int32 // its pages of the main zone
	lines   int   // number of lines that name it
	waiting queue // lines that wait for its limit
	// next is the group's line that waits in pool.large. Only one line of a group whose limit
	// held lines back waits there at a time.
	next   *line
	listed bool // in the list pool.crowded

	// For the sweeper.
	since uint64 // tick when it released memory last, or when it began to hold some
	wants int64  // pages that its lines have waited for too long
}

// group returns g, or for nil the group of requests that name none.
func (p *Pool) group(g *Group) *Group {
	if g == nil {
		return &p.ungrouped
	}
	return g
}

// NewGroup makes a Group. It needs no Close: an idle Group without references is garbage.
func (p *Pool) NewGroup() *Group { return &Group{pool: p} }

// LimitGroups lowers the limit of each Group to n bytes, unless it is lower already. A Group that
// holds more keeps its memory until its calls release it.
func (p *Pool) LimitGroups(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.groupLimit = min(p.groupLimit, int32(n/PageSize))
}

// Idle reports whether the group holds nothing and no request waits for it.
func (g *Group) Idle() bool {
	g.pool.mu.Lock()
	defer g.pool.mu.Unlock()
	return g.held == 0 && g.lines == 0
}

// InUse returns how many bytes the group holds now.
func (g *Group) InUse() int64 {
	g.pool.mu.Lock()
	defer g.pool.mu.Unlock()
	held := g.held
	if f := g.pool.front; f != nil && f.group == g {
		held -= f.head.pages
	}
	return int64(held) * PageSize
}

// The functions below are called with pool.mu held.

// crowds reports whether lines wait for g. A new line then waits behind them.
func (g *Group) crowds() bool { return g.next != nil || g.waiting.head != nil }

// room reports whether g may have n more pages of the main zone.
func (g *Group) room(n int32) bool {
	p := g.pool
	if g == &p.ungrouped || g.main == 0 || p.groupLimit == noLimit {
		return true
	}
	return g.main+n <= min(p.groupLimit, (p.main.total-(p.grouped-g.main))/2)
}

// hold adds n pages to the holding of g. main: they are pages of the main zone.
func (g *Group) hold(n int32, main bool) {
	g.held += n
	if !main {
		return
	}
	g.main += n
	if p := g.pool; g != &p.ungrouped {
		p.grouped += n
	}
}

// crowd puts l into the group's queue. A line that had the group's turn becomes the first there.
func (p *Pool) crowd(g *Group, l *line) {
	first := p.step(l)
	p.join(&g.waiting, l)
	if first {
		l.promote()
	}
	if !g.listed {
		g.listed = true
		p.crowded = append(p.crowded, g)
	}
	p.let(l)
}

// admit lets the group's first lines continue while there is room.
func (p *Pool) admit(g *Group) {
	for g.next == nil && g.waiting.head != nil {
		l := g.waiting.first()
		if !g.room(l.head.pages) {
			return
		}
		l.served()
		if p.park(l) {
			continue
		}
		p.leave(l)
		g.next = l
		p.join(&p.large, l)
	}
}

// admitAll does that for all groups with waiting lines, in turn, and removes groups without
// waiting lines from the list.
func (p *Pool) admitAll() {
	if len(p.crowded) == 0 {
		return
	}
	first := p.crowded[0]
	copy(p.crowded, p.crowded[1:])
	p.crowded[len(p.crowded)-1] = first
	kept := p.crowded[:0]
	for _, g := range p.crowded {
		p.admit(g)
		if g.waiting.head != nil {
			kept = append(kept, g)
		} else {
			g.listed = false
		}
	}
	clear(p.crowded[len(kept):])
	p.crowded = kept
}
