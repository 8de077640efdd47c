package mem

import (
	"cmp"
	"slices"

	"github.com/nfsrdmad/nfsrdmad/internal/queue"
)

// waits is the state of the waiting requests of a Pool.
type waits struct {
	waiting int        // number of waiting requests
	crowded []*Group   // the groups for which requests wait
	small   queueOrder // the requestQueues of small requests, which may also have pages of the reserve
	round   uint64     // the last round in which a queue was served
	opened  uint64     // number of turns given out

	next       *requestQueue // the queue that waits for its block in the main zone, or nil
	nextTick   uint64        // tick when next was set
	unfittable int           // number of queues that nextLocked passed over, because no block is long enough
	unfitLeast int32         // size of the smallest request for which there is no block, in pages
	fits       int32         // size of the largest block that can become free, in pages

	ready      queue.List[waiter, *waiter] // requests whose Granted is to be called
	delivering bool
}

// A requestQueue holds the waiting requests of one share in one group, in the order of Get. Small
// requests and others have separate queues. A request that waits does not count as held memory.
type requestQueue struct {
	queue.List[waiter, *waiter]
	share *Share
	group *Group
	small bool
	pages int64 // total size of its requests, in pages
	turn
}

// A turn is the place of a requestQueue in the order of service: by rounds, and in one round by
// numbers. A client has one turn in a round. So a client with many queues waits as long for each of
// its turns as a client with one queue.
type turn struct{ round, number uint64 }

func (t turn) compare(u turn) int {
	return cmp.Or(cmp.Compare(t.round, u.round), cmp.Compare(t.number, u.number))
}

// A queueOrder is a list of requestQueues in the order of their turns.
type queueOrder []*requestQueue

func (o queueOrder) find(q *requestQueue) int {
	at, _ := slices.BinarySearchFunc(o, q.turn, func(e *requestQueue, t turn) int { return e.compare(t) })
	return at
}

func (o *queueOrder) add(q *requestQueue) { *o = slices.Insert(*o, o.find(q), q) }

func (o *queueOrder) remove(q *requestQueue) {
	at := o.find(q)
	*o = slices.Delete(*o, at, at+1)
}

// A waiter is the pool's bookkeeping of a Request.
type waiter struct {
	queue.Links[waiter] // links in the requestQueue, or in Pool.ready
	request             *Request
	share               *Share
	queue               *requestQueue // nil if it does not wait
	pages               int32
	tick                uint64 // Pool.tick when Get was called
	buffer              *Buffer
	err                 error
}

// need returns how many pages the first request needs.
func (q *requestQueue) need() int32 { return q.First.pages }

// enqueueLocked puts r at the end of its requestQueue. If there is no such queue yet, it opens one.
func (p *Pool) enqueueLocked(r *waiter, g *Group) {
	small := r.pages <= smallPages
	q := r.share.queueLocked(g, small)
	if q == nil {
		q = &requestQueue{share: r.share, group: g, small: small}
		p.joinLocked(q)
	}
	q.Add(r)
	q.pages += int64(r.pages)
	r.queue = q
	p.waiting++
}

// withdrawLocked removes r from its requestQueue, and closes the queue if it is empty.
func (p *Pool) withdrawLocked(r *waiter) {
	q := r.queue
	q.Remove(r)
	q.pages -= int64(r.pages)
	r.queue = nil
	p.waiting--
	if q.First == nil {
		p.leaveLocked(q)
	}
}

// joinLocked gives q a turn: in the round after that of the last turn of its client, but not in a
// round that is over.
func (p *Pool) joinLocked(q *requestQueue) {
	s, g := q.share, q.group
	p.opened++
	s.client.round = max(s.client.round, p.round) + 1
	q.turn = turn{s.client.round, p.opened}
	s.queues = append(s.queues, q)
	if len(g.queues) == 0 {
		p.crowded = append(p.crowded, g)
	}
	g.queues.add(q)
	if q.small {
		p.small.add(q)
	}
}

// leaveLocked undoes joinLocked.
func (p *Pool) leaveLocked(q *requestQueue) {
	s, g := q.share, q.group
	at := slices.Index(s.queues, q)
	s.queues = slices.Delete(s.queues, at, at+1)
	g.queues.remove(q)
	if len(g.queues) == 0 {
		at := slices.Index(p.crowded, g)
		p.crowded = slices.Delete(p.crowded, at, at+1)
		g.blocked = false
	}
	if q.small {
		p.small.remove(q)
	}
	if p.next == q {
		p.next = nil
	}
}

// grantLocked serves all requests that can be served.
func (p *Pool) grantLocked() {
	for p.grantNextLocked() || p.grantSmallLocked() {
	}
	if p.waiting == 0 {
		p.unfittable = 0
	}
}

// grantNextLocked serves the queue that comes first, or returns false. If no block for it is free,
// no other request gets pages of the main zone until a block is.
func (p *Pool) grantNextLocked() bool {
	q := p.nextLocked()
	if q != p.next {
		p.next, p.nextTick = q, p.tick
	}
	if q == nil {
		return false
	}
	e, ok := p.takeMainLocked(q.need())
	if ok {
		p.serveLocked(q, e)
	}
	return ok
}

// nextLocked returns the queue to serve next from the main zone, or nil if none may be served: of
// the queues that are next in their groups, the one whose turn comes first.
func (p *Pool) nextLocked() (next *requestQueue) {
	for range len(p.crowded) + 1 {
		p.unfittable, p.unfitLeast = 0, anySize
		stopped := false
		for _, g := range p.crowded {
			was := g.blocked
			q := g.nextLocked()
			stopped = stopped || g.blocked && !was
			if q != nil && (next == nil || q.compare(next.turn) < 0) {
				next = q
			}
		}
		if next != nil || !stopped {
			break
		}
		// A group reached its limit. Other queues of the shares that wait for this group may be
		// served now (fitsLocked).
	}
	return next
}

// grantSmallLocked serves small requests from the reserve. It returns false if it can serve none.
func (p *Pool) grantSmallLocked() (served bool) {
	for i := 0; i < len(p.small) && p.reserve.free() > 0; {
		q := p.small[i]
		if q.share.fitsLocked(q, q.need()) {
			if e, ok := p.takeReserveLocked(q.share.client, q.need()); ok {
				p.serveLocked(q, e)
				served = true
				continue
			}
		}
		i++
	}
	return served
}

// serveLocked grants the first request of q the pages e. If q has more requests, it waits for
// another turn.
func (p *Pool) serveLocked(q *requestQueue, e extent) {
	r := q.First
	p.round = max(p.round, q.round)
	p.withdrawLocked(r)
	if q.First != nil {
		p.leaveLocked(q)
		p.joinLocked(q)
	}
	p.settleLocked(r, p.bufferLocked(q.share, q.group, e, r.request.Size), nil)
}

// settleLocked makes r ready: the pool will call Granted with b or err.
func (p *Pool) settleLocked(r *waiter, b *Buffer, err error) {
	r.buffer, r.err = b, err
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
	if p.waiting > 0 || p.short {
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
