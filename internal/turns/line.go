// Package turns decides which waiter gets a shared resource next, such that each client address
// gets it as often as any other.
//
// A Line has three levels: client addresses, the connections of an address, and the waiters of a
// connection. Next takes the first waiter of the first connection of the first address; then that
// connection goes to the end of its address's connections, and that address to the end of the
// addresses. So each waiting address is served as often as any other, however many connections it
// has, and so are the connections of one address. A new waiter of an address that waits already
// delays no other address.
//
// Take is Next for a resource that consists of a limited number of units. A waiter that Take
// returns holds a unit until GiveBack is called for its address. An address may hold at most half,
// rounded up, of the units that the other addresses do not hold. So an address that is alone may
// hold half of all units, and leaves the other half to newcomers. Take passes over an address that
// may not hold more; that address keeps its position.
//
// A Line has no lock: the lock of the shared resource guards it. A Line keeps and uses its records
// of addresses and connections again, so that in steady state it allocates no memory.
//
// A Pool lends units of a resource in that order. It has a lock of its own.
package turns

import "net/netip"

// A Line is the order in which waiters (Place.Value) are served. C identifies a connection of an
// address. The zero Line is empty.
type Line[C comparable, T any] struct {
	addresses row[C, T]
	byAddress map[netip.Addr]*Place[C, T]
	byConn    map[conn[C]]*Place[C, T]
	unused    row[C, T]
	waiting   int // waiters
	held      int // units of the resource that all addresses hold together
}

type conn[C comparable] struct {
	address netip.Addr
	id      C
}

// A Place is the entry of a Value in a Line. It is in at most one Line. The Line also has a Place
// for each address and for each connection.
type Place[C comparable, T any] struct {
	Value T

	in         *row[C, T] // list that contains it, or nil
	prev, next *Place[C, T]
	up         *Place[C, T] // a waiter's connection, or a connection's address
	row        row[C, T]    // an address's connections, or a connection's waiters
	key        conn[C]
	held       int // units of the resource that it holds, if it is an address
}

// Waits reports whether p is in a Line.
func (p *Place[C, T]) Waits() bool { return p.in != nil }

// Len returns the number of waiters.
func (l *Line[C, T]) Len() int { return l.waiting }

// Held returns the number of units of the resource that all addresses hold together.
func (l *Line[C, T]) Held() int { return l.held }

// Join puts p behind the other waiters of its connection. That is the connection id of the given
// address.
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
		}
		if !a.Waits() {
			l.addresses.push(a)
		}
		c = l.place(key, a)
		l.byConn[key] = c
		a.row.push(c)
	}
	p.up = c
	c.row.push(p)
	l.waiting++
}

// Next removes and returns the next waiter, or returns nil if none waits.
func (l *Line[C, T]) Next() *Place[C, T] {
	if a := l.addresses.first; a != nil {
		return l.first(a)
	}
	return nil
}

// Take is like Next, but passes over addresses that may not hold another unit of the resource. The
// parameter most is the number of units that the resource has. Take returns the waiter p and the
// Place of its address, or two nils if no waiter may have a unit. The address holds one more unit
// until the caller calls GiveBack(address).
func (l *Line[C, T]) Take(most int) (p, address *Place[C, T]) {
	if l.held >= most {
		return nil, nil
	}
	for a := l.addresses.first; a != nil; a = a.next {
		if a.held < (most-(l.held-a.held)+1)/2 {
			a.held++
			l.held++
			return l.first(a), a
		}
	}
	return nil, nil
}

// GiveBack gives back a unit of the resource that Take gave to a waiter. address is what Take
// returned with that waiter.
func (l *Line[C, T]) GiveBack(address *Place[C, T]) {
	address.held--
	l.held--
	l.leave(address)
}

// Each calls f for each waiter of a connection. f may remove the waiter from l.
func (l *Line[C, T]) Each(address netip.Addr, id C, f func(*Place[C, T])) {
	c := l.byConn[conn[C]{address, id}]
	if c == nil {
		return
	}
	for p := c.row.first; p != nil; {
		next := p.next // if f removes the last waiter, Leave also removes c
		f(p)
		p = next
	}
}

// first removes and returns the first waiter of the address a. It moves a to the end of the
// addresses, and the waiter's connection to the end of those of a.
func (l *Line[C, T]) first(a *Place[C, T]) *Place[C, T] {
	c := a.row.first
	p := c.row.first
	l.addresses.remove(a)
	l.addresses.push(a)
	a.row.remove(c)
	a.row.push(c)
	l.Leave(p)
	return p
}

// Leave takes p out of the Line. p must be in it.
func (l *Line[C, T]) Leave(p *Place[C, T]) {
	c := p.up
	a := c.up
	p.up = nil
	c.row.remove(p)
	l.waiting--
	if c.row.first == nil {
		a.row.remove(c)
		delete(l.byConn, c.key)
		l.forget(c)
	}
	if a.row.first == nil {
		l.addresses.remove(a)
		l.leave(a)
	}
}

// leave removes the Place a of an address from the Line, if the address neither waits nor
// holds a unit.
func (l *Line[C, T]) leave(a *Place[C, T]) {
	if a.held == 0 && !a.Waits() {
		delete(l.byAddress, a.key.address)
		l.forget(a)
	}
}

// place returns an empty Place for the given key. The key is an address, or a connection. For
// a connection, up is the Place of its address.
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

// forget clears p, so that the method place can use p again.
func (l *Line[C, T]) forget(p *Place[C, T]) {
	p.key, p.up = conn[C]{}, nil
	l.unused.push(p)
}

// A row is a list of Places.
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
