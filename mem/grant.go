package mem

import (
	"sync/atomic"
)

// chargeLocked adds n pages to the holdings of s, its client and g. The parameter main is true for
// pages of the main zone.
func (p *Pool) chargeLocked(s *Share, g *Group, n int32, main bool) {
	if g.held == 0 {
		g.since = p.tick
	}
	g.holdLocked(n, main)
	s.add(g, n)
	c := s.client
	if c.add(g, n); c.pages == n && c.queues == 0 {
		p.active++
	}
}

// dischargeLocked undoes chargeLocked.
func (p *Pool) dischargeLocked(s *Share, g *Group, n int32, main bool) {
	g.holdLocked(-n, main)
	s.add(g, -n)
	c := s.client
	if c.add(g, -n); c.pages == 0 && c.queues == 0 {
		p.active--
		c.forgetLocked()
	}
}

// takeIdleLocked takes n pages of the main zone for a request of g. It fails if another request is
// next in the main zone (p.current), if g is at its limit, or if no block of n pages is free.
func (p *Pool) takeIdleLocked(g *Group, n int32) (extent, bool) {
	if p.current != nil || g.blocked || !g.roomLocked(n) {
		return extent{}, false
	}
	return p.takeMainLocked(n)
}

// grantLocked serves all requests that can be served.
func (p *Pool) grantLocked() {
	p.again = p.waiting > 0
	for p.again {
		p.again = false
		for p.grantLargeLocked() {
		}
		p.grantSmallLocked()
	}
	if p.waiting == 0 {
		p.unfittable, p.starved = 0, 0
	}
}

// grantLargeLocked serves the request that is next in the main zone, or returns false. The request
// is charged at once. If no block for it is free, its queue stays next (p.current) until a block
// is; meanwhile no other request gets pages of the main zone.
func (p *Pool) grantLargeLocked() bool {
	if p.current == nil {
		q := p.nextLargeLocked()
		if q == nil {
			return false
		}
		p.chargeLocked(q.share, q.group, q.need(), true)
		p.current, p.currentTick = q, p.tick
	}
	q := p.current
	e, ok := p.takeMainLocked(q.need())
	if !ok {
		return false
	}
	p.current = nil
	p.serveLocked(q, e)
	return true
}

// nextLargeLocked returns the queue to serve next from the main zone: of the queues that are first
// in their groups, the one whose client comes first (clientQueue.before). Clients within their fair
// part (withinLocked) come before others. It returns nil if no request may have memory of the main
// zone.
func (p *Pool) nextLargeLocked() (next *requestQueue) {
	p.unfittable, p.unfitLeast = 0, anySize
	nextWithin := false
	for w := p.crowded.First; w != nil; w = w.Next {
		q, within := p.nextOfGroupLocked(w.group)
		if q != nil && (next == nil || within && !nextWithin || within == nextWithin && q.in.before(next.in)) {
			next, nextWithin = q, within
		}
	}
	return next
}

// nextOfGroupLocked returns the queue of g to serve next from the main zone, or nil. Clients within
// their fair part come before others; the result within is true if the client of the queue is one
// of them. If the limit of the group does not allow a request, the requests behind that one wait
// too, because otherwise smaller requests would starve it.
func (p *Pool) nextOfGroupLocked(g *Group) (next *requestQueue, within bool) {
	for c := g.waiting.First; c != nil; c = c.Next {
		for q := c.First; q != nil; q = q.Next {
			switch n := q.need(); {
			case !q.fitsShareLocked():
			case !g.roomLocked(n):
				p.again = p.again || !g.blocked // other queues of a share may now continue; see fullLocked
				g.blocked = true
				return next, false
			case p.unfitLocked(n):
				p.passLocked(q)
				p.unfittable++
			case c.client.withinLocked(g, n):
				return q, true
			case next == nil:
				next = q
			}
		}
	}
	g.blocked = false
	return next, false
}

// fitsShareLocked reports whether the limit of the share allows the first request of q. If it does
// not, q becomes s.full: then fitsShareLocked returns false for all other queues of the share until
// q is served, or waits for something other than this limit (passLocked). Otherwise small requests
// would starve a large one.
func (q *requestQueue) fitsShareLocked() bool {
	s := q.share
	if full := s.fullLocked(); full != nil && full != q {
		return false
	}
	if s.roomLocked(q.need()) {
		return true
	}
	if s.full == nil {
		s.full, s.pool.again = q, true
	}
	return false
}

// fullLocked returns s.full, the queue that makes the other queues of s wait, or nil. If that queue
// now waits only for the limit of its group, it makes the others wait no longer.
func (s *Share) fullLocked() *requestQueue {
	if q := s.full; q != nil && s.roomLocked(q.need()) && (q.group.blocked || !q.group.roomLocked(q.need())) {
		s.full = nil
	}
	return s.full
}

// If the other queues of the share wait for q (Share.full), passLocked lets them continue. The
// caller has found that the first request of q is served or withdrawn, or waits for something
// other than the limit of its share.
func (p *Pool) passLocked(q *requestQueue) {
	if s := q.share; s.full == q {
		s.full, p.again = nil, true
	}
}

// grantSmallLocked serves the small requests that wait for the reserve. They get pages of the main
// zone if takeIdleLocked finds some, otherwise pages of the reserve.
func (p *Pool) grantSmallLocked() {
	for again := true; again; {
		again = false
		p.starved = 0
		for c := p.small.First; c != nil; {
			next := c.Next
			again = p.serveSmallLocked(c) || again
			c = next
		}
	}
}

// serveSmallLocked serves one request of a client that waits for the reserve. It returns false if
// it can serve none.
func (p *Pool) serveSmallLocked(c *clientQueue) bool {
	for q := c.First; q != nil; q = q.Next {
		if !q.fitsShareLocked() {
			continue
		}
		s, g, n := q.share, q.group, q.need()
		e, ok := p.takeIdleLocked(g, n)
		if !ok {
			e, ok = p.takeReserveLocked(s.client, n)
		}
		if ok {
			p.chargeLocked(s, g, n, e.page < p.main.total)
			p.serveLocked(q, e)
			return true
		}
		p.starved++
	}
	return false
}

// serveLocked grants the first request of q the pages e, which are charged already.
func (p *Pool) serveLocked(q *requestQueue, e extent) {
	r := q.First
	p.passLocked(q)
	p.servedLocked(q)
	b := p.bufferLocked(q.share, q.group, e, r.request.Size)
	p.dequeueLocked(r)
	p.settleLocked(r, b, nil)
}

// closeShareLocked closes s. All its waiting requests get ErrClosed.
func (p *Pool) closeShareLocked(s *Share) {
	if s.closed {
		return
	}
	s.closed = true
	last := len(p.shares) - 1
	p.shares[s.at], p.shares[last].at = p.shares[last], s.at
	p.shares[last] = nil
	p.shares = p.shares[:last]
	for len(s.queues) > 0 {
		r := s.queues[0].First
		p.withdrawLocked(r)
		p.refused++
		p.settleLocked(r, nil, ErrClosed)
	}
	s.client.shares--
	s.client.forgetLocked()
}

// withdrawLocked removes a waiting request from its queue: Cancel was called, or its share was
// closed.
func (p *Pool) withdrawLocked(r *waiter) {
	if q := r.queue; q.First == r {
		p.passLocked(q)
		if p.current == q {
			p.current = nil
			p.dischargeLocked(q.share, q.group, r.pages, true)
		}
	}
	p.dequeueLocked(r)
}

// A Buffer is a contiguous block of payload memory. It begins at the start of a page, and counts
// its references. It implements xdr.Releaser.
//
// A Buffer starts with one reference. Releasing the last one returns the memory to its pool,
// share and group; using Bytes after that is a programming error. All methods may be called from
// any goroutine.
type Buffer struct {
	bytes  []byte
	refs   atomic.Int32
	share  *Share
	group  *Group
	tick   uint64  // Pool.tick when the Buffer was granted
	unused *Buffer // the next in the pool's list of unused Buffers
	extent
}

// Bytes returns the memory: the requested number of bytes, with a capacity of whole pages. Its
// content is undefined at first: write every byte before it goes to a reply or a file.
func (b *Buffer) Bytes() []byte { return b.bytes }

// Retain adds a reference.
func (b *Buffer) Retain() {
	if b.share == nil {
		panic("mem: Retain of a released Buffer")
	}
	b.refs.Add(1)
}

// Release drops a reference. If requests waited for the memory, it may call their Granted.
func (b *Buffer) Release() {
	s := b.share
	if s == nil {
		panic("mem: Release of a released Buffer")
	}
	// A Buffer that is not used keeps a count of 1, which is the first reference of its next user.
	// So the release of the last reference need not write the count.
	if b.refs.Load() != 1 {
		if b.refs.Add(-1) > 0 {
			return
		}
		b.refs.Store(1)
	}
	s.free(b)
}

// bufferLocked returns the Buffer for e. Unused Buffers are used again, so that
// in steady state none is allocated.
func (p *Pool) bufferLocked(s *Share, g *Group, e extent, size int) *Buffer {
	b := p.unused
	if b == nil {
		b = new(Buffer)
		b.refs.Store(1)
		p.buffers = append(p.buffers, b)
	} else {
		p.unused, b.unused = b.unused, nil
	}
	from, to := int(e.page)*PageSize, int(e.page+e.pages)*PageSize
	b.bytes = p.arena[from : from+size : to]
	b.share, b.group, b.extent, b.tick = s, g, e, p.tick
	p.granted++
	if n := p.inUse(); n > p.recent {
		p.recent, p.peak = n, max(p.peak, n)
	}
	return b
}
