package mem

import (
	"container/heap"
	"net/netip"

	"github.com/nfsrdmad/nfsrdmad/internal/queue"
)

// A siteRow has the clients of one site that wait in a waitingPlace. Only the first one is asked whether it can
// be served, and a few others if it has its part (besideLocked), so that a site costs about as much as a client,
// however many addresses wait in it. clients is a heap in the order of clientQueue.less.
type siteRow struct {
	queue.Links[siteRow] // links in the waitingPlace
	pool                 *Pool
	place                *waitingPlace
	key                  rowKey
	clients              []*clientQueue
	// bounded is true if the first request waits for the part of its client (part.go). Until the next scan, the
	// other requests of the row wait, too, because smaller ones would starve it.
	bounded bool
	looked  int // how many clients the calls of besideLocked have looked at, modulo their number

	turn uint64 // Pool.turns when the row began to wait, or was last served
	rank int    // its index in waitingPlace.ranked
}

// A rowKey identifies a siteRow of a waitingPlace. A client whose key is no address has a row of its own; for
// others, client is nil. Blamed clients of a site have another row than the others.
type rowKey struct {
	site   netip.Addr
	client *Client
	blamed bool
}

func (c *Client) rowKey() rowKey {
	if !c.site.IsValid() {
		return rowKey{client: c, blamed: c.blamed}
	}
	return rowKey{site: c.site, blamed: c.blamed}
}

// first returns the row whose turn it is, and next the row after r. Both may be nil.
func (w *waitingPlace) first() *siteRow {
	if w.known.First != nil {
		return w.known.First
	}
	return w.blamed.First
}

func (r *siteRow) next() *siteRow {
	if r.Next == nil && !r.key.blamed {
		return r.place.blamed.First
	}
	return r.Next
}

// list returns the list that has r.
func (w *waitingPlace) list(r *siteRow) *queue.List[siteRow, *siteRow] {
	if r.key.blamed {
		return &w.blamed
	}
	return &w.known
}

// rowLocked returns the row of c in w. If there is none, it makes one, whose turn comes last.
func (p *Pool) rowLocked(w *waitingPlace, c *Client) *siteRow {
	key := c.rowKey()
	r := w.rows[key]
	if r == nil {
		r = unused(&p.unusedRows)
		r.pool, r.place, r.key, r.turn = p, w, key, p.turns
		if w.rows == nil {
			w.rows = make(map[rowKey]*siteRow)
		}
		w.rows[key] = r
		w.grown = w.grown || len(w.rows) > mostUnused
		w.list(r).Add(r)
	}
	return r
}

// leaveRowLocked takes c out of its row. A row without clients is gone.
func (p *Pool) leaveRowLocked(c *clientQueue) {
	r := c.row
	heap.Remove(r, c.at)
	if c.row = nil; len(r.clients) > 0 {
		r.settleLocked()
		return
	}
	w := r.place
	if w.reserve {
		heap.Remove(w.ranks(r), r.rank)
	}
	w.list(r).Remove(r)
	delete(w.rows, r.key)
	*r = siteRow{clients: r.clients}
	if cap(r.clients) > mostUnusedClients {
		r.clients = nil
	}
	keep(&p.unusedRows, r)
}

// mostUnusedClients is the largest capacity of siteRow.clients that an unused row keeps.
const mostUnusedClients = 64

// add puts c into the row.
func (r *siteRow) add(c *clientQueue) {
	c.row = r
	c.countLocked()
	heap.Push(r, c)
	switch w := r.place; {
	case !w.reserve:
	case len(r.clients) == 1:
		heap.Push(w.ranks(r), r)
	default:
		r.settleLocked()
	}
}

// less reports whether c is served before d, which waits in the same row: in the reserve, the client that has
// less of it after that comes first, and otherwise the client that was served least recently.
func (c *clientQueue) less(d *clientQueue) bool {
	if c.least != d.least {
		return c.least < d.least
	}
	return c.turn < d.turn
}

// mostNeeds is the largest number of queues of a client that countLocked looks at. A client that has more counts as if
// the smallest of their requests were one page.
const mostNeeds = 16

// countLocked counts c.least. It must not be too large: it says which clients need not be asked (rowHeap), and the
// first queue of c may wait for the limit of its share.
func (c *clientQueue) countLocked() {
	if !c.row.place.reserve {
		return
	}
	need := int32(1)
	if c.Len <= mostNeeds {
		need = smallPages
		for q := c.First; q != nil; q = q.Next {
			need = min(need, q.need())
		}
	}
	c.least = c.client.small + need
}

// settleLocked moves c to its place in the row, after a change of its first request, or of what its client has
// of the reserve.
func (c *clientQueue) settleLocked() {
	c.countLocked()
	heap.Fix(c.row, c.at)
	c.row.settleLocked()
}

// settleLocked is called after c.small has changed.
func (c *Client) settleLocked() {
	for _, q := range c.waits {
		if q.row.place.reserve {
			q.settleLocked()
		}
	}
}

// candidateLocked returns the queue of the row that is next to be served, or nil. It passes over queues that wait
// for the limits of their shares, and over those for whose request no block can become free (unfitLocked). There
// are few such queues, unless all requests are too large.
func (p *Pool) candidateLocked(r *siteRow) *requestQueue { return p.fittingLocked(r, 0, nil) }

// fittingLocked is candidateLocked for the clients in the heap from index at downwards. next is the best queue that
// was found elsewhere, or nil. A client that is passed over costs as much as the two below it.
func (p *Pool) fittingLocked(r *siteRow, at int, next *requestQueue) *requestQueue {
	if at >= len(r.clients) {
		return next
	}
	p.visited++
	c := r.clients[at]
	if next != nil && !c.less(next.in) {
		return next
	}
	if q := p.firstFittingLocked(c); q != nil {
		return q
	}
	return p.fittingLocked(r, 2*at+2, p.fittingLocked(r, 2*at+1, next))
}

// besideMost is how many neighbours of the first client besideLocked looks at. It is small, because a scan may ask
// every row.
const besideMost = 3

// besideLocked looks for a queue that may be served although q, the candidate of the row, may not. Of the next few
// neighbours for whose queues the function may returns true, the first one in the order of turns wins. The next call
// looks at others, so that a row of many clients hides none of them for long.
func (p *Pool) besideLocked(r *siteRow, q *requestQueue, may func(*requestQueue) bool) (next *requestQueue) {
	others := len(r.clients) - 1
	for i := range min(others, besideMost) {
		p.visited++
		c := r.clients[(q.in.at+1+(r.looked+i)%others)%len(r.clients)]
		if next != nil && !c.less(next.in) {
			continue
		}
		if beside := p.firstFittingLocked(c); beside != nil && may(beside) {
			next = beside
		}
	}
	if others > 0 {
		r.looked = (r.looked + besideMost) % others
	}
	return next
}

func (p *Pool) firstFittingLocked(c *clientQueue) *requestQueue {
	for q := c.First; q != nil; q = q.Next {
		switch {
		case !q.fitsShareLocked():
		case !c.row.place.reserve && p.unfitLocked(q.need()):
			p.passLocked(q)
			p.unfittable++
		default:
			return q
		}
	}
	return nil
}

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (r *siteRow) Len() int { return len(r.clients) }

func (r *siteRow) Less(i, j int) bool {
	r.pool.visited++
	return r.clients[i].less(r.clients[j])
}

func (r *siteRow) Swap(i, j int) {
	r.clients[i], r.clients[j] = r.clients[j], r.clients[i]
	r.clients[i].at, r.clients[j].at = i, j
}

func (r *siteRow) Push(c any) {
	q := c.(*clientQueue)
	q.at = len(r.clients)
	r.clients = append(r.clients, q)
}

func (r *siteRow) Pop() any {
	last := len(r.clients) - 1
	c := r.clients[last]
	r.clients[last] = nil
	r.clients = r.clients[:last]
	return c
}
