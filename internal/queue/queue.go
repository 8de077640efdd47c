// Package queue is a list whose elements contain their own links. So adding an element allocates
// nothing, and removing an element needs no search. The list has no lock: its users must not use it
// at the same time.
package queue

// Links is embedded in an element. An element is in at most one List.
type Links[T any] struct{ Prev, Next *T }

func (l *Links[T]) links() *Links[T] { return l }

// linked is a type that has Links embedded.
type linked[T any] interface {
	*T
	links() *Links[T]
}

// A List has Len elements. The zero List is empty.
type List[T any, P linked[T]] struct {
	First, Last *T
	Len         int
}

// Add puts e at the end of the list.
func (l *List[T, P]) Add(e *T) {
	P(e).links().Prev = l.Last
	if l.Last == nil {
		l.First = e
	} else {
		P(l.Last).links().Next = e
	}
	l.Last = e
	l.Len++
}

// Push puts e at the front of the list.
func (l *List[T, P]) Push(e *T) {
	P(e).links().Next = l.First
	if l.First == nil {
		l.Last = e
	} else {
		P(l.First).links().Prev = e
	}
	l.First = e
	l.Len++
}

// AddBehind puts e behind the element at of the list. If at is nil, e goes to the front.
func (l *List[T, P]) AddBehind(e, at *T) {
	switch at {
	case nil:
		l.Push(e)
	case l.Last:
		l.Add(e)
	default:
		next := P(at).links().Next
		*P(e).links() = Links[T]{Prev: at, Next: next}
		P(at).links().Next = e
		P(next).links().Prev = e
		l.Len++
	}
}

// Remove takes e out of the list.
func (l *List[T, P]) Remove(e *T) {
	c := P(e).links()
	if c.Prev == nil {
		l.First = c.Next
	} else {
		P(c.Prev).links().Next = c.Next
	}
	if c.Next == nil {
		l.Last = c.Prev
	} else {
		P(c.Next).links().Prev = c.Prev
	}
	*c = Links[T]{}
	l.Len--
}
