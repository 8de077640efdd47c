package mem

import (
	"cmp"
	"math"
	"slices"
)

// Get asks for r.Size bytes. The caller must not change r until Granted is called, or Cancel returns
// true. Requests of this share in the same Group are granted in the order of Get, but one of up to
// 64 KiB and a larger one may overtake each other. Get panics if r still waits.
func (s *Share) Get(r *Request) {
	p := s.pool
	n := pagesOf(r.Size)
	p.mu.Lock()
	if r.waiter.share != nil {
		p.mu.Unlock()
		panic("mem: Get of a Request that waits already")
	}
	g := p.groupLocked(r.Group)
	if g.pool != p {
		p.mu.Unlock()
		panic("mem: Get with a Group of another Pool")
	}
	if err := s.refusalLocked(n); err != nil {
		p.refused++
		p.mu.Unlock()
		r.Granted(r, nil, err)
		return
	}
	b := s.takeLocked(g, int32(n), r.Size)
	switch {
	case b != nil && s.owed == 0:
		p.mu.Unlock()
		r.Granted(r, b, nil)
		return
	case b != nil:
		r.waiter = waiter{request: r, share: s}
		p.settleLocked(&r.waiter, b, nil)
	default:
		r.waiter = waiter{request: r, share: s, pages: int32(n), tick: p.tick}
		p.waited++
		p.enqueueLocked(&r.waiter, g)
		p.grantLocked()
	}
	p.deliverAndUnlock()
}

// Cancel takes back a Request that still waits; then Granted will not be called. If it returns
// false, Granted was called or is about to be called, and the caller has to release the Buffer
// that Granted gets.
func (s *Share) Cancel(r *Request) bool {
	p := s.pool
	p.mu.Lock()
	if r.waiter.share != s || r.waiter.queue == nil {
		p.mu.Unlock()
		return false
	}
	p.withdrawLocked(&r.waiter)
	r.waiter = waiter{}
	p.grantLocked()
	p.deliverAndUnlock()
	return true
}

// Close closes the share: waiting requests and every later Get get ErrClosed. The caller still has
// to release granted Buffers, and to undo what its Ledger has charged (Ledger.Add).
func (s *Share) Close() {
	p := s.pool
	p.mu.Lock()
	p.closeShareLocked(s)
	p.grantLocked()
	p.deliverAndUnlock()
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
		p.unfittable, p.starved, p.beyond = 0, 0, 0
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
	e, ok := p.main.alloc(q.need())
	if !ok {
		return false
	}
	p.current = nil
	p.serveLocked(q, e)
	return true
}

// nextLargeLocked returns the queue to serve next from the main zone, or nil: of the queues that are
// first in their groups, the one whose client comes first (clientQueue.before). Clients that are
// entitled to the memory (package fair) come before others.
func (p *Pool) nextLargeLocked() (next *requestQueue) {
	p.unfittable, p.unfitLeast = 0, anySize
	nextEntitled := false
	for w := p.crowded.First; w != nil; w = w.Next {
		q, entitled := p.nextOfGroupLocked(w.group)
		if q != nil && (next == nil || entitled && !nextEntitled || entitled == nextEntitled && q.in.before(next.in)) {
			next, nextEntitled = q, entitled
		}
	}
	return next
}

// nextOfGroupLocked returns the queue of g to serve next from the main zone, or nil. entitled says whether
// its client is entitled to the memory; such clients come first, also before a neighbour whose turn it is
// (besideLocked). A request that the limit of the group does not allow makes those behind it wait, because
// smaller requests would starve it. One that the part of its client does not allow makes those of its site wait.
func (p *Pool) nextOfGroupLocked(g *Group) (next *requestQueue, entitled bool) {
	g.bounded = 0
	for r := g.waiting.first(); r != nil; r = r.next() {
		r.bounded = false
		q := p.candidateLocked(r)
		if q == nil {
			continue
		}
		within := q.entitledLocked()
		may := within || q.share.client.mayLocked(g, q.need())
		if may && !within {
			if beside := p.besideLocked(r, q, (*requestQueue).entitledLocked); beside != nil {
				q, within = beside, true
			}
		}
		switch n := q.need(); {
		case !may:
			p.passLocked(q)
			r.bounded = true
			g.bounded++
		case !g.roomLocked(n):
			p.again = p.again || !g.blocked // other queues of a share may now continue; see fullLocked
			g.blocked = true
			return next, false
		case within:
			return q, true
		case next == nil:
			next = q
		}
	}
	g.blocked = false
	return next, false
}

// fitsShareLocked reports whether the limit of the share allows the first request of q. If not, q
// becomes s.full: the other queues of the share wait until q is served, or waits for something else
// (passLocked). Otherwise small requests would starve a large one.
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
// now waits only for the limit of its group, or for the part of its client, it makes the others wait no
// longer.
func (s *Share) fullLocked() *requestQueue {
	if q := s.full; q != nil && s.roomLocked(q.need()) && (q.group.blocked || q.beyondLocked()) {
		s.full = nil
	}
	return s.full
}

// beyondLocked reports whether the limit of its group, or the part of its client, does not allow the
// first request of q.
func (q *requestQueue) beyondLocked() bool {
	n := q.need()
	return !q.group.roomLocked(n) || !q.share.client.mayLocked(q.group, n)
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
// zone if takeIdleLocked finds some, otherwise pages of the reserve. If there are pages in the reserve only, it
// asks the rows that may have one, one of each group at a time, and no others.
func (p *Pool) grantSmallLocked() {
	for again := true; again; {
		again = false
		p.starved, p.beyond = 0, 0
		for w := p.short.First; w != nil; {
			next := w.Next
			for r := w.first(); r != nil && !p.onlyReserveLocked(w.group); {
				nextRow := r.next()
				again = p.serveSmallLocked(r) || again
				r = nextRow
			}
			if p.onlyReserveLocked(w.group) {
				again = p.serveReserveLocked(w) || again
				p.starved += len(w.rows)
			}
			w = next
		}
	}
}

// serveSmallLocked serves the first request of a row that waits for the reserve. If it cannot, because the client
// has its part of the main zone and the reserve has nothing for it, it serves a neighbour that may have pages of
// the main zone. It returns false if it serves none.
func (p *Pool) serveSmallLocked(r *siteRow) bool {
	q := p.candidateLocked(r)
	if q == nil {
		return false
	}
	c, g, n := q.share.client, q.group, q.need()
	e, ok := p.takeIdleLocked(c, g, n)
	if !ok {
		e, ok = p.takeReserveLocked(c, n)
	}
	switch {
	case ok:
	case c.mayLocked(g, n):
		p.starved++
		return false
	default:
		p.beyond++
		if q = p.besideLocked(r, q, p.mayIdleLocked); q == nil {
			return false
		}
		e, _ = p.takeIdleLocked(q.share.client, q.group, q.need())
	}
	p.chargeLocked(q.share, q.group, q.need(), e.page < p.main.total)
	p.serveLocked(q, e)
	return true
}

// mayIdleLocked reports whether takeIdleLocked finds pages for the first request of q.
func (p *Pool) mayIdleLocked(q *requestQueue) bool {
	c, g, n := q.share.client, q.group, q.need()
	return p.idleLocked(c, g, n) && p.main.has(n)
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
	// Calls of the connection may still go on. While the Ledger counts something, the pool must not
	// forget the Client: a new connection with the same key would get a second one.
	if s.ledger != nil {
		s.ledger.tellLocked()
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

// settleLocked makes r ready: the pool will call Granted with b or err.
func (p *Pool) settleLocked(r *waiter, b *Buffer, err error) {
	r.ready, r.buffer, r.err = true, b, err
	r.share.owed++
	p.ready.Add(r)
}

// deliveries is how many Granted calls one goroutine makes before another goroutine takes over,
// so that a caller of Release is not delayed for long.
const deliveries = 16

// deliverAndUnlock starts the sweeper if it is needed, unlocks p.mu and calls Granted of all ready
// requests. Only one goroutine at a time makes these calls. So they come in the order of the
// grants, and a Granted that releases memory does not recurse.
func (p *Pool) deliverAndUnlock() {
	if p.waiting > 0 || p.Pressed() {
		p.watchLocked()
	}
	if p.delivering || p.ready.First == nil {
		p.mu.Unlock()
		return
	}
	p.delivering = true
	p.drainAndUnlock()
}

// drainAndUnlock makes the calls for deliverAndUnlock. It runs on the goroutine that set
// p.delivering, or on a goroutine that continues its work.
func (p *Pool) drainAndUnlock() {
	for n := 0; p.ready.First != nil; n++ {
		if n == deliveries {
			p.mu.Unlock()
			go func() {
				p.mu.Lock()
				p.drainAndUnlock()
			}()
			return
		}
		w := p.ready.First
		p.ready.Remove(w)
		r, b, err := w.request, w.buffer, w.err
		w.share.owed--
		*w = waiter{}
		p.mu.Unlock()
		r.Granted(r, b, err)
		p.mu.Lock()
	}
	p.delivering = false
	p.mu.Unlock()
}

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
