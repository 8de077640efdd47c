package mem

import (
	"slices"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/queue"
)

// waits is the state of the waiting requests of a Pool.
type waits struct {
	waiting int // number of waiting requests
	// waitedFor is how long requests have waited together, in seconds, up to counted, the time of the last change of
	// waiting. As a Duration it would overflow after a day of 100,000 requests that wait.
	waitedFor float64
	counted   time.Time

	short   queue.List[waitingPlace, *waitingPlace] // the groups with small requests that wait for the reserve
	crowded queue.List[waitingPlace, *waitingPlace] // the groups with requests that wait for the main zone
	turns   uint64                                  // number of turns that clients got, or began to wait for
	visited int                                     // rows and clients that were compared, for the tests

	current     *requestQueue // the queue that is next in the main zone; its first request counts as held already
	currentTick uint64        // tick when current was set

	again      bool  // true if grantLocked has to try all queues again
	starved    int   // number of rows of small requests for which grantLocked found no memory, or did not look
	beyond     int   // number of rows of small requests that wait for the part of their client
	unfittable int   // number of queues of large requests that grantLocked passed over, because no block is long enough
	unfitLeast int32 // size of the smallest request for which there is no block, in pages
	fits       int32 // size of the largest block that can become free, in pages

	// Elements for reuse, at most mostUnused in each list.
	unusedQueues       []*requestQueue
	unusedClientQueues []*clientQueue
	unusedRows         []*siteRow

	ready      queue.List[waiter, *waiter] // requests whose Granted is to be called
	delivering bool
}

// A requestQueue holds the waiting requests of one share in one group, in the order of Get. Small
// requests and others have separate queues. A request that waits does not count as held memory,
// except the first one of Pool.current.
type requestQueue struct {
	queue.Links[requestQueue] // links in the clientQueue
	queue.List[waiter, *waiter]
	share *Share
	group *Group
	small bool
	pages int64 // total size of its requests, in pages
	in    *clientQueue
}

// need returns how many pages the first request needs.
func (q *requestQueue) need() int32 { return q.First.pages }

// A clientQueue holds the requestQueues of one client that wait in one waitingPlace. They are
// served in turn.
type clientQueue struct {
	queue.List[requestQueue, *requestQueue]
	client *Client
	row    *siteRow
	at     int    // its index in row.clients
	least  int32  // in the reserve: pages that the client has of it after its smallest first request is served
	turn   uint64 // Pool.turns when it joined or was last served
}

// before reports whether c is served before d, which waits in another group. Blamed clients
// (Client.blamed) come after all others. Otherwise the site that was served least recently comes
// first, and of two queues of one client the queue that was served least recently.
func (c *clientQueue) before(d *clientQueue) bool {
	switch {
	case c.client.blamed != d.client.blamed:
		return d.client.blamed
	case c.client.lastTurn() != d.client.lastTurn():
		return c.client.lastTurn() < d.client.lastTurn()
	}
	return c.turn < d.turn
}

// A waitingPlace has the clients that wait for the same kind of memory. Each group has one for the main zone
// and one for the reserve. In each, sites are served in turn (siteRow).
type waitingPlace struct {
	queue.Links[waitingPlace] // links in Pool.crowded or Pool.short
	group                     *Group
	reserve                   bool
	known, blamed             queue.List[siteRow, *siteRow] // the rows of blamed clients come last
	rows                      map[rowKey]*siteRow
	// In the reserve, ranked has the rows of known and those of blamed in the order of siteRow.ranksBefore.
	ranked [2]rowHeap
	grown  bool // true if rows has had more than mostUnused entries
}

// A waiter is the pool's bookkeeping of a Request.
type waiter struct {
	queue.Links[waiter] // links in the requestQueue, or in Pool.ready
	request             *Request
	share               *Share
	queue               *requestQueue // nil if it does not wait
	ready               bool          // true if it is in Pool.ready: Granted will be called
	pages               int32
	tick                uint64 // Pool.tick when Get was called
	buffer              *Buffer
	err                 error
}

// enqueueLocked puts r at the end of its requestQueue. If there is no such queue yet, it opens one.
func (p *Pool) enqueueLocked(r *waiter, g *Group) {
	if p.waiting == 0 {
		p.forgiveLocked() // no tick has called it since the last shortage
	}
	s, small := r.share, r.pages <= smallPages
	q := s.queueLocked(g, small)
	if q == nil {
		q = unused(&p.unusedQueues)
		q.share, q.group, q.small = s, g, small
		s.queues = append(s.queues, q)
		g.queues++
		if s.client.queues++; s.client.queues == 1 && s.client.pages == 0 {
			p.active++
		}
		if q.Add(r); small {
			p.joinLocked(&g.small, q)
		} else {
			p.joinLocked(&g.waiting, q)
		}
	} else {
		q.Add(r)
	}
	q.pages += int64(r.pages)
	r.queue = q
	p.countWaitLocked()
	p.waiting++
}

// countWaitLocked adds the time since its last call to waitedFor, for each request that has waited since then. It is
// called before the number of waiting requests changes.
func (p *Pool) countWaitLocked() {
	now := time.Now()
	if p.waiting > 0 {
		p.waitedFor += float64(p.waiting) * now.Sub(p.counted).Seconds()
	}
	p.counted = now
}

// dequeueLocked takes r out of its requestQueue, and closes the queue if it is empty. If r was the
// first of a queue of small requests that promoteLocked had moved to the main zone, the queue waits
// for the reserve again.
func (p *Pool) dequeueLocked(r *waiter) {
	q := r.queue
	wasFirst := q.First == r
	q.Remove(r)
	q.pages -= int64(r.pages)
	r.queue = nil
	p.countWaitLocked()
	p.waiting--
	switch {
	case q.First == nil:
		p.leaveLocked(q)
		s := q.share
		s.queues = slices.DeleteFunc(s.queues, func(other *requestQueue) bool { return other == q })
		q.group.queues--
		if s.client.queues--; s.client.queues == 0 && s.client.pages == 0 {
			p.active--
			s.client.forgetLocked()
		}
		*q = requestQueue{}
		keep(&p.unusedQueues, q)
	case wasFirst && q.small && !q.in.row.place.reserve:
		p.leaveLocked(q)
		p.joinLocked(&q.group.small, q)
	case wasFirst:
		q.in.settleLocked()
	}
}

// queueLocked returns the requestQueue of s for requests of g, or nil: the one for small requests
// if the parameter small is true, otherwise the one for the others.
func (s *Share) queueLocked(g *Group, small bool) *requestQueue {
	for _, q := range s.queues {
		if q.group == g && q.small == small {
			return q
		}
	}
	return nil
}

// unused takes an element from the end of list, so that requests which wait allocate nothing. If the
// list is empty, it makes an element.
func unused[T any](list *[]*T) *T {
	last := len(*list) - 1
	if last < 0 {
		return new(T)
	}
	e := (*list)[last]
	*list = (*list)[:last]
	return e
}

// mostUnused is how many elements of one kind the pool keeps for reuse. It leaves others to the garbage collector,
// so that a crowd that has waited once costs no memory for ever.
const mostUnused = 1024

// keep puts e into list for reuse, unless the list is full.
func keep[T any](list *[]*T, e *T) {
	if len(*list) < mostUnused {
		*list = append(*list, e)
	}
}

// joinLocked puts q behind the other queues of its client in the waitingPlace w. A client that did
// not wait there becomes the last one of its row.
func (p *Pool) joinLocked(w *waitingPlace, q *requestQueue) {
	client := q.share.client
	if q.in = client.waitsIn(w); q.in != nil {
		q.in.Add(q)
		q.in.settleLocked()
		return
	}
	if w.first() == nil {
		p.placesLocked(w).Add(w)
	}
	c := unused(&p.unusedClientQueues)
	c.client, q.in = client, c
	c.Add(q)
	p.newTurnLocked(c, len(client.waits) == 0)
	client.waits = append(client.waits, c)
	p.rowLocked(w, client).add(c)
}

// waitsIn returns the clientQueue of c in w, or nil.
func (c *Client) waitsIn(w *waitingPlace) *clientQueue {
	for _, q := range c.waits {
		if q.row.place == w {
			return q
		}
	}
	return nil
}

func (p *Pool) placesLocked(w *waitingPlace) *queue.List[waitingPlace, *waitingPlace] {
	if w.reserve {
		return &p.short
	}
	return &p.crowded
}

// leaveLocked takes q out of its waitingPlace. If its client has other queues there, the client
// keeps its position.
func (p *Pool) leaveLocked(q *requestQueue) {
	c := q.in
	c.Remove(q)
	if q.in = nil; c.First != nil {
		c.settleLocked()
		return
	}
	w := c.row.place
	p.leaveRowLocked(c)
	if w.first() == nil {
		if p.placesLocked(w).Remove(w); !w.reserve {
			w.group.blocked, w.group.bounded = false, 0
		}
		if w.grown { // a map keeps the memory of entries that were deleted
			w.rows, w.ranked, w.grown = nil, [2]rowHeap{}, false
		}
	}
	c.client.waits = slices.DeleteFunc(c.client.waits, func(other *clientQueue) bool { return other == c })
	*c = clientQueue{}
	keep(&p.unusedClientQueues, c)
}

// servedLocked is called when a request of q was served: q becomes the last of its client's queues
// in its waitingPlace, the client the last one of its row, and the row the last one there.
func (p *Pool) servedLocked(q *requestQueue) {
	c := q.in
	c.Remove(q)
	c.Add(q)
	w := c.row.place
	p.newTurnLocked(c, !w.reserve)
	if site := c.client.ofSite; site != nil && !w.reserve {
		site.turn = p.turns
	}
	c.row.turn = p.turns
	c.settleLocked()
	rows := w.list(c.row)
	rows.Remove(c.row)
	rows.Add(c.row)
}

// newTurnLocked gives c the last turn. If everywhere is true, its client also becomes the last one in the
// order between groups (clientQueue.before).
func (p *Pool) newTurnLocked(c *clientQueue, everywhere bool) {
	p.turns++
	if c.turn = p.turns; everywhere {
		c.client.turn = p.turns
	}
}
