package mem

// A Group bounds what the holders of one thing may hold of a Pool together,
// whatever their shares: all calls into one file system, which may stall with
// all of them. Requests that name a Group draw on it and on their share.
//
// A request whose Group is at its limit waits in the Group, charged to nobody,
// and holds up nobody else. One larger than the limit is granted when the Group
// holds nothing. Of what waits for both, Group and share, nothing is charged
// before both have room: neither is pinned by the other.
type Group struct {
	pool *Pool

	// Guarded by pool.mu.
	charged int32 // pages held, or waited for in the pool's queue
	waiting fifo  // requests that the limit holds back
	listed  bool  // in pool.crowded
}

// NewGroup makes a Group. It needs no end: an idle one that nobody refers to is
// gone.
func (p *Pool) NewGroup() *Group { return &Group{pool: p} }

// Idle says that the group holds nothing now, and nobody waits for it.
func (g *Group) Idle() bool {
	g.pool.mu.Lock()
	defer g.pool.mu.Unlock()
	return g.charged == 0 && g.waiting.head == nil
}

// InUse is how many bytes the group holds now, or waits for in the pool's queue.
func (g *Group) InUse() int64 {
	g.pool.mu.Lock()
	defer g.pool.mu.Unlock()
	return int64(g.charged) * PageSize
}

// The functions below are called with pool.mu held. A nil Group has room for
// everything.

// room says whether the limit allows n pages more.
func (g *Group) room(n int32) bool {
	return g == nil || g.charged == 0 || g.charged+n <= g.pool.groupLimit
}

// lets says whether r may be charged: nobody who came earlier waits.
func (g *Group) lets(r *Request) bool {
	return g == nil || g.waiting.first(r) && g.room(r.pages)
}

func (g *Group) charge(n int32) {
	if g != nil {
		g.charged += n
	}
}

// hold puts r into the group's queue.
func (g *Group) hold(r *Request) {
	r.place = inGroup
	g.waiting.insert(r)
	if !g.listed {
		g.listed = true
		g.pool.crowded = append(g.pool.crowded, g)
	}
}

// desert withdraws and refuses what s waits for in groups.
func (p *Pool) desert(s *Share) {
	for _, g := range p.crowded {
		for r := g.waiting.head; r != nil; {
			next := r.next
			if r.share == s {
				p.withdraw(r)
				p.refuse(r)
			}
			r = next
		}
	}
}

// admitGroups lets in what waits in groups that got room, and forgets the groups
// where nobody waits any more.
func (p *Pool) admitGroups() {
	kept := p.crowded[:0]
	for _, g := range p.crowded {
		p.admit(nil, g)
		if g.waiting.head != nil {
			kept = append(kept, g)
		} else {
			g.listed = false
		}
	}
	clear(p.crowded[len(kept):])
	p.crowded = kept
}
