package gss

// links are what an element of a list has in itself: putting it into a list allocates
// nothing. An element is in one list at a time.
type links[T any] struct{ prev, next *T }

func (l *links[T]) chain() *links[T] { return l }

// linked is a type that has links embedded.
type linked[T any] interface {
	*T
	chain() *links[T]
}

// A list is a queue from which any element can be taken out.
type list[T any, P linked[T]] struct{ first, last *T }

// add puts e behind all others.
func (l *list[T, P]) add(e *T) {
	P(e).chain().prev = l.last
	if l.last == nil {
		l.first = e
	} else {
		P(l.last).chain().next = e
	}
	l.last = e
}

// push puts e in front.
func (l *list[T, P]) push(e *T) {
	P(e).chain().next = l.first
	if l.first == nil {
		l.last = e
	} else {
		P(l.first).chain().prev = e
	}
	l.first = e
}

// remove takes e out.
func (l *list[T, P]) remove(e *T) {
	c := P(e).chain()
	if c.prev == nil {
		l.first = c.next
	} else {
		P(c.prev).chain().next = c.next
	}
	if c.next == nil {
		l.last = c.prev
	} else {
		P(c.next).chain().prev = c.prev
	}
	*c = links[T]{}
}
