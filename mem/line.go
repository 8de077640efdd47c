package mem

// place is where a Request is.
type place uint8

const (
	nowhere place = iota
	inLine        // waits in a line
	inReady       // in Pool.ready: Granted will be called
)

// queued is the pool's bookkeeping of a Request.
type queued struct {
	share      *Share
	line       *line
	pages      int32
	place      place
	tick       uint64 // when Get was called
	buffer     *Buffer
	err        error
	next, prev *Request
}

// fifo is a queue of Requests that allows removal in the middle.
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

// A line holds the waiting requests of one share in one group, in the order of Get. Small
// requests and others have separate lines. A line waits as a whole, in one of these lists:
//
//	Share.parked   its share is at the limit
//	Group.waiting  its group is at the limit
//	Pool.small     small, waits for the reserve
//	Pool.large     waits for the main zone
//	Pool.aside     there is no block so large at present
//
// Nothing is charged for a line that waits, except the pool's front.
type line struct {
	fifo
	share *Share
	group *Group
	small bool
	pages int64 // of its requests
	count int

	in         *lines // the list that holds it
	turn       *turn  // the turn that this list belongs to, or nil
	next, prev *line  // in that list
	mate       *line  // the share's next line
}

// lines is a list of lines.
type lines struct {
	head, tail *line
}

func (q *lines) push(l *line) {
	l.in, l.next, l.prev = q, nil, q.tail
	if q.tail == nil {
		q.head = l
	} else {
		q.tail.next = l
	}
	q.tail = l
}

// insert puts l first.
func (q *lines) insert(l *line) {
	l.in, l.next, l.prev = q, q.head, nil
	if q.head == nil {
		q.tail = l
	} else {
		q.head.prev = l
	}
	q.head = l
}

func (q *lines) remove(l *line) {
	if l.prev == nil {
		q.head = l.next
	} else {
		l.prev.next = l.next
	}
	if l.next == nil {
		q.tail = l.prev
	} else {
		l.next.prev = l.prev
	}
	l.in, l.next, l.prev = nil, nil, nil
}

// A queue is a list of turns: clients take turns, and within its turn a client's lines do.
type queue struct {
	head, tail *turn
}

// A turn holds the lines of one client in one queue.
type turn struct {
	lines
	client     *Client
	queue      *queue
	next, prev *turn
	mate       *turn // the client's next turn, in another queue
}

// push puts t last. If its client is not blamed, t comes before the turns of blamed clients.
func (q *queue) push(t *turn) {
	at := q.tail
	for !t.client.blamed && at != nil && at.client.blamed {
		at = at.prev
	}
	t.prev = at
	if at == nil {
		t.next, q.head = q.head, t
	} else {
		t.next, at.next = at.next, t
	}
	if t.next == nil {
		q.tail = t
	} else {
		t.next.prev = t
	}
}

// insert puts t first.
func (q *queue) insert(t *turn) {
	t.next, t.prev = q.head, nil
	if q.head == nil {
		q.tail = t
	} else {
		q.head.prev = t
	}
	q.head = t
}

func (q *queue) remove(t *turn) {
	if t.prev == nil {
		q.head = t.next
	} else {
		t.prev.next = t.next
	}
	if t.next == nil {
		q.tail = t.prev
	} else {
		t.next.prev = t.prev
	}
	t.next, t.prev = nil, nil
}

// first returns the line whose turn it is, or nil.
func (q *queue) first() *line {
	if q.head == nil {
		return nil
	}
	return q.head.lines.head
}

// each calls f for each line, in the order of turns, until f returns false. f may remove its
// line.
func (q *queue) each(f func(l *line) bool) {
	for t := q.head; t != nil; {
		after := t.next
		for l := t.lines.head; l != nil; {
			next := l.next
			if !f(l) {
				return
			}
			l = next
		}
		t = after
	}
}

// The functions below are called with p.mu held.

// line returns the line of s for requests of g, small or not, or nil.
func (s *Share) line(g *Group, small bool) *line {
	for l := s.lines; l != nil; l = l.mate {
		if l.group == g && l.small == small {
			return l
		}
	}
	return nil
}

// open makes a line that is in no list yet.
func (p *Pool) open(s *Share, g *Group, small bool) *line {
	l := p.unusedLine
	if l == nil {
		l = new(line)
	} else {
		p.unusedLine = l.mate
	}
	l.share, l.group, l.small = s, g, small
	l.mate, s.lines = s.lines, l
	g.lines++
	if s.client.lines++; s.client.lines == 1 && s.client.pages == 0 {
		p.active++
	}
	return l
}

// close forgets a line without requests that is in no list.
func (p *Pool) close(l *line) {
	s := l.share
	at := &s.lines
	for *at != l {
		at = &(*at).mate
	}
	*at = l.mate
	l.group.lines--
	if s.client.lines--; s.client.lines == 0 && s.client.pages == 0 {
		p.active--
		s.client.forget()
	}
	*l = line{mate: p.unusedLine}
	p.unusedLine = l
}

// join puts l into q, behind the other lines of its client. If the client has no turn in q, it
// gets the last one.
func (p *Pool) join(q *queue, l *line) {
	c := l.share.client
	t := c.turns
	for t != nil && t.queue != q {
		t = t.mate
	}
	if t == nil {
		if t = p.unusedTurn; t == nil {
			t = new(turn)
		} else {
			p.unusedTurn = t.mate
		}
		t.client, t.queue = c, q
		t.mate, c.turns = c.turns, t
		q.push(t)
	}
	t.push(l)
	l.turn = t
}

// leave takes l out of its list. If its client has other lines there, the client keeps its turn.
func (p *Pool) leave(l *line) {
	t := l.turn
	l.in.remove(l)
	l.turn = nil
	if t == nil || t.lines.head != nil {
		return
	}
	t.queue.remove(t)
	at := &t.client.turns
	for *at != t {
		at = &(*at).mate
	}
	*at = t.mate
	*t = turn{mate: p.unusedTurn}
	p.unusedTurn = t
}

// served ends the turn of l: l becomes the last of its client's lines, and its client the last in
// the queue.
func (l *line) served() {
	t := l.turn
	t.lines.remove(l)
	t.lines.push(l)
	t.queue.remove(t)
	t.queue.push(t)
}

// promote makes l the first in its queue.
func (l *line) promote() {
	t := l.turn
	t.lines.remove(l)
	t.lines.insert(l)
	t.queue.remove(t)
	t.queue.insert(t)
}
