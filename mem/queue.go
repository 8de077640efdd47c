package mem

// place says which queue a Request is in.
type place uint8

const (
	nowhere place = iota
	inGroup       // Group.waiting: its group is at the limit
	inShare       // Share.waiting: its share is at the limit
	inPool        // Pool.waiting: charged to group and share, waits for a block
	inReady       // Pool.ready: settled, Granted is to be called
)

// queued is what the pool remembers of a Request.
type queued struct {
	share      *Share
	group      *Group
	ticket     uint64 // by order of Get
	pages      int32
	place      place
	buffer     *Buffer
	err        error
	next, prev *Request
}

// fifo is a queue of Requests from which any can be taken out.
type fifo struct {
	head, tail *Request
}

func (q *fifo) push(r *Request) {
	r.next, r.prev = nil, q.tail
	if q.tail == nil {
		q.head = r
	} else {
		q.tail.next = r
	}
	q.tail = r
}

// first says whether nobody waits who came before r.
func (q *fifo) first(r *Request) bool { return q.head == nil || r.ticket < q.head.ticket }

// insert is push for a Request that may have waited elsewhere before: it goes
// before all that came later.
func (q *fifo) insert(r *Request) {
	if q.tail == nil || q.tail.ticket < r.ticket {
		q.push(r)
		return
	}
	next := q.head
	for next.ticket < r.ticket {
		next = next.next
	}
	r.prev, r.next = next.prev, next
	if next.prev == nil {
		q.head = r
	} else {
		next.prev.next = r
	}
	next.prev = r
}

func (q *fifo) remove(r *Request) {
	if r.prev == nil {
		q.head = r.next
	} else {
		r.prev.next = r.next
	}
	if r.next == nil {
		q.tail = r.prev
	} else {
		r.next.prev = r.prev
	}
	r.next, r.prev = nil, nil
}

// The functions below are called with p.mu held; deliver alone lets it go.

// enqueue puts r where it has to wait: for its group, for its share, or, charged
// to both, for a block.
func (p *Pool) enqueue(r *Request) {
	switch s, g := r.share, r.group; {
	case !g.lets(r):
		g.hold(r)
	case !s.lets(r):
		r.place = inShare
		s.waiting.insert(r)
	default:
		g.charge(r.pages)
		s.charged += r.pages
		s.admitted++
		r.place = inPool
		p.waiting.push(r)
	}
}

// admit moves on what waits for s and for g, as far as they have room. What
// lacks room in the other then waits there. Either may be nil.
func (p *Pool) admit(s *Share, g *Group) {
	// No request comes back to the queue that it leaves: it is the first there
	// and fits. And what one loop moves into the other's queue does not fit, or
	// stands behind what does not. So each queue is gone through once.
	if s != nil {
		for r := s.waiting.head; r != nil && s.room(r.pages); r = s.waiting.head {
			s.waiting.remove(r)
			p.enqueue(r)
		}
	}
	if g != nil {
		for r := g.waiting.head; r != nil && g.room(r.pages); r = g.waiting.head {
			g.waiting.remove(r)
			p.enqueue(r)
		}
	}
}

// grant serves the pool's queue from its head, until a block is missing.
func (p *Pool) grant() {
	for r := p.waiting.head; r != nil; r = p.waiting.head {
		e, ok := p.pages.alloc(r.pages)
		if !ok {
			return
		}
		p.waiting.remove(r)
		p.queuedNow--
		r.share.admitted--
		p.settle(r, p.buffer(r.share, r.group, e, r.Size), nil)
	}
}

// withdraw takes a waiting request out of its queue.
func (p *Pool) withdraw(r *Request) {
	switch r.place {
	case inPool:
		p.waiting.remove(r)
		r.share.charged -= r.pages
		r.share.admitted--
		r.group.charge(-r.pages)
	case inShare:
		r.share.waiting.remove(r)
	case inGroup:
		r.group.waiting.remove(r)
	}
	p.queuedNow--
}

// shut closes s and settles all that it waits for.
func (p *Pool) shut(s *Share) {
	if s.closed {
		return
	}
	s.closed = true
	delete(p.shares, s)
	for r := p.waiting.head; r != nil && s.admitted > 0; {
		next := r.next
		if r.share == s {
			p.withdraw(r)
			p.refuse(r)
		}
		r = next
	}
	for s.waiting.head != nil {
		r := s.waiting.head
		p.withdraw(r)
		p.refuse(r)
	}
	p.desert(s)
	p.admitGroups()
}

func (p *Pool) refuse(r *Request) {
	p.refused++
	p.settle(r, nil, ErrClosed)
}

// settle makes r ready to be told of b or err.
func (p *Pool) settle(r *Request, b *Buffer, err error) {
	r.place, r.buffer, r.err = inReady, b, err
	r.share.owed++
	p.ready.push(r)
}

// deliveries is how many Granted calls one goroutine makes before it hands the
// rest to another, so that nobody who releases memory is kept for long.
const deliveries = 64

// deliver unlocks p.mu and calls Granted for all that is ready. One goroutine
// at a time does so: calls come in the order of the grants, and a Granted that
// releases memory does not recurse.
func (p *Pool) deliver() {
	if p.delivering || p.ready.head == nil {
		p.mu.Unlock()
		return
	}
	p.delivering = true
	p.drain()
}

// drain is the body of deliver, for whoever set p.delivering.
func (p *Pool) drain() {
	for n := 0; p.ready.head != nil; n++ {
		if n == deliveries {
			p.mu.Unlock()
			go func() {
				p.mu.Lock()
				p.drain()
			}()
			return
		}
		r := p.ready.head
		p.ready.remove(r)
		b, err := r.buffer, r.err
		r.share.owed--
		r.queued = queued{}
		p.mu.Unlock()
		r.Granted(r, b, err)
		p.mu.Lock()
	}
	p.delivering = false
	p.mu.Unlock()
}
