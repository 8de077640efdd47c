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
// Even if many Groups hold all that they may, for ever, every other Group still has its floor: in
// the main zone, and in each share (Config.Groups).
type Group struct {
	pool *Pool

	// Guarded by pool.mu.
	held    int32 // pages
	main    int32 // its pages of the main zone
	slot    int32 // its index in pool.slots and in holdings, while it holds anything
	lines   int   // number of lines that name it
	waiting queue // lines that wait for its limit
	// next is the group's line that waits in pool.large. Only one line of a group whose limit
	// held lines back waits there at a time.
	next   *line
	listed bool // in the list pool.crowded

	released uint64 // number of blocks released

	// For the sweeper.
	seen  uint64 // released at the last tick
	since uint64 // tick when released changed last
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
	if g.main == 0 {
		return true
	}
	if g != &p.ungrouped && g.main+n > p.groupLimit {
		return false
	}
	d := p.mainParts
	if p.mainHeld+n <= d.commons/2 || g.main+n <= d.floor {
		return true
	}
	// The commons are the pages above all floors. A group has to leave a third of the commons
	// that the others do not use, so that a second file system that stalls finds some as well.
	before, after := d.above(g.main), d.above(g.main+n)
	return after <= 2*(d.commons-(p.common-before)-after)
}

// hold adds n pages to the holding of g. main: they are pages of the main zone.
func (g *Group) hold(n int32, main bool) {
	g.held += n
	if !main {
		return
	}
	p := g.pool
	before := p.mainParts.above(g.main)
	g.main += n
	p.mainHeld += n
	p.common += p.mainParts.above(g.main) - before
}

// enlist gives g a slot.
func (p *Pool) enlist(g *Group) {
	g.seen, g.since = g.released, p.tick
	if n := len(p.vacant); n > 0 {
		g.slot = p.vacant[n-1]
		p.vacant = p.vacant[:n-1]
		p.slots[g.slot] = g
		return
	}
	g.slot = int32(len(p.slots))
	p.slots = append(p.slots, g)
}

// delist takes back the slot of a group that holds nothing. All holdings are 0 at that slot.
func (p *Pool) delist(g *Group) {
	p.slots[g.slot] = nil
	p.vacant = append(p.vacant, g.slot)
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
