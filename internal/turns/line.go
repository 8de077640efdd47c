// Package turns says who is next where many wait for something that they share.
//
// A Line holds those that wait in three levels: client addresses, the connections of
// an address, and what waits for one connection. Next takes the first that waits of
// the first connection of the first address; then that connection goes behind the
// others of its address, and that address behind the other addresses. So each address
// that waits gets as much as any other, however many connections it has, and each of
// its connections as much as its others. What joins behind an address that waits
// already delays no other address.
//
// A Line has no lock: that of what is shared guards it. It allocates for an address or
// a connection only where more of them wait than ever before.
package turns

import "net/netip"

// A Line is the order in which Values get what they wait for. C is what tells the
// connections of an address apart. The zero Line is empty.
type Line[C comparable, T any] struct {
	addresses row[C, T]
	byAddress map[netip.Addr]*Place[C, T]
	byConn    map[conn[C]]*Place[C, T]
	unused    row[C, T]
}

type conn[C comparable] struct {
	address netip.Addr
	id      C
}

// A Place is where a Value stands in a Line, one at a time. Addresses and connections
// stand in places of their own.
type Place[C comparable, T any] struct {
	Value T

	in         *row[C, T] // nil: nowhere
	prev, next *Place[C, T]
	up         *Place[C, T] // the connection that it waits for, or the connection's address
	row        row[C, T]    // those that stand behind it
	key        conn[C]
}

// Waits says whether p is in a Line.
func (p *Place[C, T]) Waits() bool { return p.in != nil }

// Empty says that nothing waits.
func (l *Line[C, T]) Empty() bool { return l.addresses.first == nil }

// Join puts p behind what waits for the same connection.
func (l *Line[C, T]) Join(p *Place[C, T], address netip.Addr, id C) {
	if l.byAddress == nil {
		l.byAddress, l.byConn = make(map[netip.Addr]*Place[C, T]), make(map[conn[C]]*Place[C, T])
	}
	key := conn[C]{address, id}
	c := l.byConn[key]
	if c == nil {
		a := l.byAddress[address]
		if a == nil {
			a = l.place(key, nil)
			l.byAddress[address] = a
			l.addresses.push(a)
		}
		c = l.place(key, a)
		l.byConn[key] = c
		a.row.push(c)
	}
	p.up = c
	c.row.push(p)
}

// Next takes out the one whose turn it is, or returns nil.
func (l *Line[C, T]) Next() *Place[C, T] {
	a := l.addresses.first
	if a == nil {
		return nil
	}
	c := a.row.first
	p := c.row.first
	l.addresses.remove(a)
	l.addresses.push(a)
	a.row.remove(c)
	a.row.push(c)
	l.Leave(p)
	return p
}

// Leave takes p out, which is in the Line.
func (l *Line[C, T]) Leave(p *Place[C, T]) {
	c := p.up
	a := c.up
	p.up = nil
	c.row.remove(p)
	if c.row.first == nil {
		a.row.remove(c)
		delete(l.byConn, c.key)
		l.forget(c)
	}
	if a.row.first == nil {
		l.addresses.remove(a)
		delete(l.byAddress, a.key.address)
		l.forget(a)
	}
}

// place is one for an address, or for a connection of address up.
func (l *Line[C, T]) place(key conn[C], up *Place[C, T]) *Place[C, T] {
	p := l.unused.first
	if p == nil {
		p = new(Place[C, T])
	} else {
		l.unused.remove(p)
	}
	p.key, p.up = key, up
	return p
}

// forget keeps p for the next address or connection.
func (l *Line[C, T]) forget(p *Place[C, T]) {
	p.key, p.up = conn[C]{}, nil
	l.unused.push(p)
}

// A row is a list of places.
type row[C comparable, T any] struct{ first, last *Place[C, T] }

func (r *row[C, T]) push(p *Place[C, T]) {
	p.in, p.prev = r, r.last
	if r.last == nil {
		r.first = p
	} else {
		r.last.next = p
	}
	r.last = p
}

func (r *row[C, T]) remove(p *Place[C, T]) {
	if p.prev == nil {
		r.first = p.next
	} else {
		p.prev.next = p.next
	}
	if p.next == nil {
		r.last = p.prev
	} else {
		p.next.prev = p.prev
	}
	p.in, p.prev, p.next = nil, nil, nil
}
