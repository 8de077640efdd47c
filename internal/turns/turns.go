// Package turns decides which waiter gets a shared resource next, such that each site gets it as often as any other,
// and in a site each client address.
//
// A Line has four levels: sites (clientaddr.Site), the client addresses of a site, the connections of an address, and the
// waiters of a connection. Next takes the first waiter of the first connection of the first address of the first site;
// then that connection goes to the end of its address's connections, that address to the end of its site's addresses,
// and that site to the end of the sites. So each waiting site is served as often as any other, however many addresses
// it has; and so are the addresses of one site, and the connections of one address. A new waiter of a site that waits
// already delays no other site.
//
// Take is Next for a resource that consists of a limited number of units. A waiter that Take returns holds a unit until
// GiveBack is called for its address. The rule for units that only their holders give back (fair.Lent) bounds what a
// site may hold of all units and, while no other site waits, what an address may hold of those. So the addresses of one
// site leave a quarter to other sites, however many they are; and if two sites always wait, they hold as much as each
// other, although one of them has a single address. Take passes over a site or an address that may not hold more; it
// keeps its position.
//
// A Line has no lock: the lock of the shared resource guards it. A Line keeps and uses its records
// of addresses and connections again, so that in steady state it allocates no memory.
//
// A Pool lends units of a resource in that order. It has a lock of its own.
package turns

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/clientaddr"
	"github.com/nfsrdmad/nfsrdmad/internal/fair"
	"github.com/nfsrdmad/nfsrdmad/internal/queue"
)

// A Line is the order in which waiters (Place.Value) are served. C identifies a connection of an
// address. The zero Line is empty.
type Line[C comparable, T any] struct {
	sites     queue.List[Place[C, T], *Place[C, T]] // those that wait
	bySite    map[netip.Addr]*Place[C, T]
	byAddress map[netip.Addr]*Place[C, T]
	byConn    map[conn[C]]*Place[C, T]
	// idle is a site in bySite without addresses, or nil. A client often has one call at a time, and then
	// enters and leaves all the time.
	idle    *Place[C, T]
	unused  queue.List[Place[C, T], *Place[C, T]]
	waiting int // waiters
	held    int // units of the resource that all addresses hold together
	active  int // number of sites that hold units
}

type conn[C comparable] struct {
	address netip.Addr
	id      C
}

// A Place is the entry of a Value in a Line. It is in at most one Line. The Line also has a Place
// for each site, for each address and for each connection.
type Place[C comparable, T any] struct {
	Value T

	queue.Links[Place[C, T]]
	up   *Place[C, T]                          // a waiter's connection, a connection's address, or an address's site
	row  queue.List[Place[C, T], *Place[C, T]] // those of the level below that wait
	key  conn[C]
	held int // units of the resource that it holds, if it is an address or a site
	// of is the number of addresses in the Line, and active of those that hold units, if it is a site.
	of, active int
}

// Waits reports whether p, a waiter, is in a Line.
func (p *Place[C, T]) Waits() bool { return p.up != nil }

// Len returns the number of waiters.
func (l *Line[C, T]) Len() int { return l.waiting }

// Held returns the number of units of the resource that all addresses hold together.
func (l *Line[C, T]) Held() int { return l.held }

// Join puts p behind the other waiters of its connection. That is the connection id of the given
// address.
func (l *Line[C, T]) Join(p *Place[C, T], address netip.Addr, id C) {
	if l.byAddress == nil {
		l.bySite, l.byAddress = make(map[netip.Addr]*Place[C, T]), make(map[netip.Addr]*Place[C, T])
		l.byConn = make(map[conn[C]]*Place[C, T])
	}
	key := conn[C]{address, id}
	c := l.byConn[key]
	if c == nil {
		a := l.byAddress[address]
		if a == nil {
			s := l.site(address)
			s.of++
			a = l.place(key, s)
			l.byAddress[address] = a
		}
		if s := a.up; a.row.Len == 0 {
			if s.row.Len == 0 {
				l.sites.Add(s)
			}
			s.row.Add(a)
		}
		c = l.place(key, a)
		l.byConn[key] = c
		a.row.Add(c)
	}
	p.up = c
	c.row.Add(p)
	l.waiting++
}

// site returns the Place of the site of an address.
func (l *Line[C, T]) site(address netip.Addr) *Place[C, T] {
	key := conn[C]{address: clientaddr.Site(address)}
	s := l.bySite[key.address]
	switch s {
	case nil:
		s = l.place(key, nil)
		l.bySite[key.address] = s
	case l.idle:
		l.idle = nil
	}
	return s
}

// Next removes and returns the next waiter, or returns nil if none waits.
func (l *Line[C, T]) Next() *Place[C, T] {
	if s := l.sites.First; s != nil {
		return l.first(s.row.First)
	}
	return nil
}

// Take is like Next, but passes over sites and addresses that may not hold another of the most units that the
// resource has. It returns the waiter p and the Place of its address, or two nils if no waiter may
// have a unit. The address holds one more unit until the caller calls GiveBack(address).
func (l *Line[C, T]) Take(most int) (p, address *Place[C, T]) {
	if l.held >= most {
		return nil, nil
	}
	for s := l.sites.First; s != nil; s = s.Next {
		site := fair.Lent(most, l.held, s.held, l.active)
		if s.held >= site {
			continue
		}
		for a := s.row.First; a != nil; a = a.Next {
			if l.sites.Len > 1 || a.held < fair.Lent(site, s.held, a.held, s.active) {
				l.hold(a, 1)
				return l.first(a), a
			}
		}
	}
	return nil, nil
}

// hold adds n units, 1 or -1, to those that the address a holds.
func (l *Line[C, T]) hold(a *Place[C, T], n int) {
	s := a.up
	a.held += n
	s.held += n
	l.held += n
	if a.held == max(n, 0) { // a had none, or has none now
		s.active += n
	}
	if s.held == max(n, 0) {
		l.active += n
	}
}

// GiveBack gives back a unit that Take gave to a waiter. Take returned address with that waiter.
func (l *Line[C, T]) GiveBack(address *Place[C, T]) {
	l.hold(address, -1)
	l.leave(address)
}

// Waits reports whether a connection has a waiter.
func (l *Line[C, T]) Waits(address netip.Addr, id C) bool {
	return l.byConn[conn[C]{address, id}] != nil
}

// Each calls f for each waiter of a connection. f may remove the waiter from l.
func (l *Line[C, T]) Each(address netip.Addr, id C, f func(*Place[C, T])) {
	c := l.byConn[conn[C]{address, id}]
	if c == nil {
		return
	}
	for p := c.row.First; p != nil; {
		next := p.Next // if f removes the last waiter, Leave also removes c
		f(p)
		p = next
	}
}

// All calls f for each waiter, until f returns false. f must not change l.
func (l *Line[C, T]) All(f func(*Place[C, T]) bool) {
	for s := l.sites.First; s != nil; s = s.Next {
		for a := s.row.First; a != nil; a = a.Next {
			for c := a.row.First; c != nil; c = c.Next {
				for p := c.row.First; p != nil; p = p.Next {
					if !f(p) {
						return
					}
				}
			}
		}
	}
}

// first removes and returns the first waiter of the address a. It moves a's site to the end of the sites, a to the end
// of those of its site, and the waiter's connection to the end of those of a.
func (l *Line[C, T]) first(a *Place[C, T]) *Place[C, T] {
	c := a.row.First
	p := c.row.First
	s := a.up
	l.sites.Remove(s)
	l.sites.Add(s)
	s.row.Remove(a)
	s.row.Add(a)
	a.row.Remove(c)
	a.row.Add(c)
	l.Leave(p)
	return p
}

// Leave takes p out of the Line. p must be in it.
func (l *Line[C, T]) Leave(p *Place[C, T]) {
	c := p.up
	a := c.up
	p.up = nil
	c.row.Remove(p)
	l.waiting--
	if c.row.Len == 0 {
		a.row.Remove(c)
		delete(l.byConn, c.key)
		l.forget(c)
	}
	if a.row.Len == 0 {
		s := a.up
		if s.row.Remove(a); s.row.Len == 0 {
			l.sites.Remove(s)
		}
		l.leave(a)
	}
}

// leave removes the Place a of an address from the Line, if the address neither waits nor
// holds a unit. With its last address, a site becomes idle.
func (l *Line[C, T]) leave(a *Place[C, T]) {
	if a.held > 0 || a.row.Len > 0 {
		return
	}
	s := a.up
	delete(l.byAddress, a.key.address)
	l.forget(a)
	if s.of--; s.of > 0 {
		return
	}
	if old := l.idle; old != nil {
		delete(l.bySite, old.key.address)
		l.forget(old)
	}
	l.idle = s
}

// place returns an empty Place for the given key, which is a site, an address or a connection. For a connection, up is
// the Place of its address, and for an address that of its site.
func (l *Line[C, T]) place(key conn[C], up *Place[C, T]) *Place[C, T] {
	p := l.unused.First
	if p == nil {
		p = new(Place[C, T])
	} else {
		l.unused.Remove(p)
	}
	p.key, p.up = key, up
	return p
}

// forget clears p, so that the method place can use p again.
func (l *Line[C, T]) forget(p *Place[C, T]) {
	p.key, p.up = conn[C]{}, nil
	l.unused.Add(p)
}

// A Pool lends a limited number of units, such as buffers. Borrowers that wait for one get it in
// turn, as in a Line. A borrower keeps its unit only while its goroutine can run, and gives it back
// before it waits for anything. So a waiter waits only for borrowers that are at work.
type Pool[T any] struct {
	// Most is the largest number of units, without those that Patience adds. New makes a unit.
	Most int
	New  func() T
	// If borrowers wait, and for the time Patience no unit has been given back or added, New makes
	// one additional unit for the next borrower, because the borrowers with units are probably stuck.
	// There are never more than 2 × Most units. 0 means that borrowers wait on.
	Patience time.Duration

	mu     sync.Mutex
	units  int // units that exist, lent and free
	free   []T
	line   Line[*Borrower[T], *Borrower[T]] // if a borrower waits, no unit is free
	wanted atomic.Bool                      // a borrower waits
	given  uint64                           // how often a unit was given back
	timer  *time.Timer                      // calls impatient, while a borrower waits; see Patience
	begun  uint64                           // how often a timer began
}

// A Borrower is a connection that uses the units of a Pool, at most one at a time.
type Borrower[T any] struct {
	Address netip.Addr // of the client (package clientaddr)

	place Place[*Borrower[T], *Borrower[T]]
	lent  chan T // delivers the unit, or is closed by End
	ended bool
	// missed is the time at which b first found another borrower waiting, since b borrowed its unit.
	// It is zero if b has not found one. Only b's goroutine uses it.
	missed time.Time
}

// Borrow lends b a unit. If none is free, it waits for one. It returns false if b has ended.
func (p *Pool[T]) Borrow(b *Borrower[T]) (unit T, ok bool) {
	b.missed = time.Time{}
	p.mu.Lock()
	n := len(p.free)
	switch {
	case b.ended:
		p.mu.Unlock()
		return unit, false
	case n > 0:
		unit = p.free[n-1]
		p.free = p.free[:n-1]
		p.mu.Unlock()
		return unit, true
	case p.units < p.Most:
		p.units++
		p.mu.Unlock()
		return p.New(), true
	}
	if b.lent == nil {
		b.lent, b.place.Value = make(chan T, 1), b
	}
	p.line.Join(&b.place, b.Address, b)
	p.waitedLocked()
	p.mu.Unlock()
	unit, ok = <-b.lent
	return unit, ok
}

// waitedLocked notes whether a borrower waits. While one does, a timer runs for Patience.
func (p *Pool[T]) waitedLocked() {
	waits := p.line.Len() > 0
	p.wanted.Store(waits)
	switch {
	case waits && p.timer == nil && p.Patience > 0:
		p.begun++
		begun, given := p.begun, p.given
		p.timer = time.AfterFunc(p.Patience, func() { p.impatient(begun, given) })
	case !waits && p.timer != nil:
		p.timer.Stop()
		p.timer = nil
	}
}

// impatient adds a unit if none has been given back since its timer began. The parameters are what
// p.begun and p.given were then.
func (p *Pool[T]) impatient(begun, given uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer == nil || p.begun != begun {
		return // in between no borrower waited
	}
	p.timer = nil
	if p.given == given && p.units < 2*p.Most {
		p.units++
		p.line.Next().Value.lent <- p.New()
	}
	p.waitedLocked()
}

// GiveBack ends the use of a unit. The next waiting borrower gets it.
func (p *Pool[T]) GiveBack(unit T) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.given++
	switch next := p.line.Next(); {
	case next != nil:
		p.waitedLocked()
		next.Value.lent <- unit
	case p.units > p.Most:
		p.units--
	default:
		p.free = append(p.free, unit)
	}
}

// Overdue reports whether b, which has a unit, should give it back, because other borrowers have
// waited for longer than most. The time runs from the first call that finds another borrower waiting,
// since b borrowed its unit. Only b's goroutine may call it.
func (p *Pool[T]) Overdue(b *Borrower[T], most time.Duration) bool {
	switch {
	case !p.wanted.Load():
		return false
	case b.missed.IsZero():
		b.missed = time.Now()
		return false
	}
	return time.Since(b.missed) >= most
}

// Wanted reports whether a borrower waits.
func (p *Pool[T]) Wanted() bool { return p.wanted.Load() }

// End ends the wait of b for a unit, because its connection ends. b gets no further unit.
func (p *Pool[T]) End(b *Borrower[T]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b.ended = true
	if b.place.Waits() {
		p.leave(b)
		close(b.lent)
	}
}

func (p *Pool[T]) leave(b *Borrower[T]) {
	p.line.Leave(&b.place)
	p.waitedLocked()
}

// Count returns the number of units that exist, and how many of them are lent.
func (p *Pool[T]) Count() (units, lent int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.units, p.units - len(p.free)
}

// Waits reports whether b waits for a unit of p.
func (p *Pool[T]) Waits(b *Borrower[T]) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return b.place.Waits()
}
