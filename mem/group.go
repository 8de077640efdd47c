package mem

// A Group bounds what the holders of one thing may hold of a Pool together,
// whatever their shares: all calls into one file system, which may stall with
// all of them. Requests that name a Group draw on it and on their share. Those
// that name none draw on one that has no limit of its own.
//
// A request whose Group is at its limit waits in the Group, charged to nothing,
// and holds up no other Group. In a Group clients take turns as they do in the
// pool. One larger than the limit is granted when the Group holds nothing.
//
// However many Groups hold all that they may, for ever, every other finds its
// floor: in the main zone, and in each share (Config.Groups).
type Group struct {
	pool *Pool

	// Guarded by pool.mu.
	held    int32 // pages
	main    int32 // of the main zone among them
	slot    int32 // while it holds anything: its place in pool.slots and in holdings
	lines   int   // lines that name it
	waiting queue // lines that the limit holds back
	// next is the line that has the group's turn and waits in pool.large. While
	// there is one, no other enters.
	next   *line
	listed bool // in pool.crowded

	released uint64 // blocks given back

	// The sweeper's.
	seen  uint64 // of released
	since uint64 // tick when that changed last
	wants int64  // pages that lines wait for too long here
}

// group is g, or the group of requests that name none.
func (p *Pool) group(g *Group) *Group {
	if g == nil {
		return &p.ungrouped
	}
	return g
}

// NewGroup makes a Group. It needs no end: an idle one that nothing refers to is
// gone.
func (p *Pool) NewGroup() *Group { return &Group{pool: p} }

// LimitGroups bounds what one Group may hold to n bytes, where Config.Group lets it
// hold more. Groups that hold more now keep it until they give it back.
func (p *Pool) LimitGroups(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.groupLimit = min(p.groupLimit, int32(n/PageSize))
}

// Idle says that the group holds nothing now, and no request waits for it.
func (g *Group) Idle() bool {
	g.pool.mu.Lock()
	defer g.pool.mu.Unlock()
	return g.held == 0 && g.lines == 0
}

// InUse is how many bytes the group holds now.
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

// crowds says that requests wait for g: what comes now stands behind them.
func (g *Group) crowds() bool { return g.next != nil || g.waiting.head != nil }

// room says whether g may have n pages more of the main zone.
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
	// Of what the others leave of the commons, a group leaves a third: the second
	// file system that stalls finds something, too.
	before, after := d.above(g.main), d.above(g.main+n)
	return after <= 2*(d.commons-(p.common-before)-after)
}

// hold adds n pages, of the main zone or not, to what g holds.
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

// delist takes back the slot of a group that holds nothing, so that all holdings
// are 0 there.
func (p *Pool) delist(g *Group) {
	p.slots[g.slot] = nil
	p.vacant = append(p.vacant, g.slot)
}

// crowd puts l into the group's queue. A line that had the group's turn already
// keeps it.
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

// admit lets the line that has the group's turn go on, if there is room.
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

// admitAll lets lines go on in all groups where some wait, and forgets the groups
// where none waits any more. Groups take turns.
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
