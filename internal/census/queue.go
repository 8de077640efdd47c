package census

// A seat is in two queues at a time: one of its address and one of its stage.
const (
	ofAddress = iota
	ofStage
	queues
)

// link holds a seat's neighbours in a queue.
type link struct{ next, prev *Seat }

// A queue is a list of seats. The field by says which links of a seat it uses: ofAddress or
// ofStage.
type queue struct {
	by          int
	first, last *Seat
	n           int
}

func (q *queue) push(s *Seat) {
	l := &s.links[q.by]
	l.prev, l.next = q.last, nil
	if q.last == nil {
		q.first = s
	} else {
		q.last.links[q.by].next = s
	}
	q.last = s
	q.n++
}

func (q *queue) remove(s *Seat) {
	l := &s.links[q.by]
	if l.prev == nil {
		q.first = l.next
	} else {
		l.prev.links[q.by].next = l.next
	}
	if l.next == nil {
		q.last = l.prev
	} else {
		l.next.links[q.by].prev = l.prev
	}
	*l = link{}
	q.n--
}
