package mem

import "sync/atomic"

// A Group limits the memory of several Requests together, such as those for one file system. So
// calls that stall while they hold memory leave enough for others. While a Group is at its limit
// (Config.Group), its next Request waits, does not count as held memory, and delays no other Group.
// A Request larger than the limit is granted when the Group holds no page of the main zone, which
// is the arena without the reserve.
type Group struct {
	pool *Pool

	// Guarded by pool.mu.
	held    int32      // pages that it holds, those of the reserve included
	main    int32      // pages of the main zone that it holds
	queues  queueOrder // the requestQueues for it
	blocked bool       // true if its next request waits for its limit
	since   uint64     // Pool.tick when it last released memory, or began to hold some
}

// groupLocked returns g. If g is nil, it returns the Group of all requests that name none.
func (p *Pool) groupLocked(g *Group) *Group {
	if g == nil {
		return &p.ungrouped
	}
	return g
}

// NewGroup makes a Group. It needs no Close: the pool has no reference to an idle Group.
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
	return g.held == 0 && len(g.queues) == 0
}

// roomLocked reports whether the limit allows g to hold n more pages of the main zone. A Group
// that holds no page of the main zone may always have n pages. The requests that name no Group
// have no limit.
func (g *Group) roomLocked(n int32) bool {
	p := g.pool
	if g == &p.ungrouped || g.main == 0 || p.groupLimit == noLimit {
		return true
	}
	return g.main+n <= min(p.groupLimit, (p.main.total-(p.grouped-g.main))/2)
}

// holdLocked adds n pages, which may be negative, to the pages that g holds. The parameter main is
// true for pages of the main zone.
func (g *Group) holdLocked(n int32, main bool) {
	if g.held == 0 || n < 0 {
		g.since = g.pool.tick
	}
	g.held += n
	if !main {
		return
	}
	g.main += n
	if p := g.pool; g != &p.ungrouped {
		p.grouped += n
	}
}

// nextLocked returns the first queue of g that may have memory of the main zone, or nil. It passes
// over queues that wait for the limit of their share, or for a block that cannot become free. If
// the limit of the group does not allow a request, the requests behind that one wait too, because
// otherwise smaller requests would starve it.
func (g *Group) nextLocked() *requestQueue {
	p := g.pool
	g.blocked = false
	for _, q := range g.queues {
		n := q.need()
		switch {
		case !q.share.fitsLocked(q, n):
		case !g.roomLocked(n):
			g.blocked = true
			return nil
		case p.unfitLocked(n):
			p.unfittable++
		default:
			return q
		}
	}
	return nil
}

// A client is the sum of all shares with the same key (OpenShare), for example those of all
// connections of a client machine. The pool forgets a client when its last share is closed and its
// last memory is released.
type client struct {
	key any // nil for the client of a single share without a key

	// Guarded by Pool.mu.
	pages  int32        // pages that it holds
	small  int32        // pages of the reserve that it holds
	heap   atomic.Int64 // bytes of Go heap charged to its shares; changed only under Pool.mu
	shares int          // number of open shares
	round  uint64       // the last round in which one of its requestQueues has its turn
}

// clientLocked returns the client with the given key, and makes it if there is none. If key is nil,
// it always makes a new client.
func (p *Pool) clientLocked(key any) *client {
	if c := p.clients[key]; c != nil {
		return c
	}
	c := &client{key: key}
	if key != nil {
		p.clients[key] = c
	}
	return c
}

// forgetLocked removes c from the pool if c has no open share, holds nothing and is charged
// nothing.
func (p *Pool) forgetLocked(c *client) {
	if c.key != nil && c.shares == 0 && c.pages == 0 && c.heap.Load() == 0 {
		delete(p.clients, c.key)
	}
}
