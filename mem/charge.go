package mem

// Charge takes note of n bytes of the Go heap that the share's peer makes this
// process keep: replies that wait to be sent, copies, input put aside. They take
// the place of payload memory: together both stay within the ceiling as far as
// they can. Charge never waits and never fails. It may overdraw the ceiling;
// then Pressed says so, and shares that make no progress are ended.
//
// The garbage collector may occupy as much again: it is the process's, and not
// counted.
func (s *Share) Charge(n int) {
	p := s.pool
	p.mu.Lock()
	s.charges(int64(n))
	p.watch()
	p.deliver()
}

// Discharge takes n bytes off what was charged. It may be called after Close, and
// must be, until all is taken off.
func (s *Share) Discharge(n int) {
	p := s.pool
	p.mu.Lock()
	s.charges(-int64(n))
	p.grant()
	p.deliver()
}

// Charged is how many bytes are charged to the share now.
func (s *Share) Charged() int64 {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	return s.heap
}

// charges is the body of both. p.mu is held.
func (s *Share) charges(n int64) {
	p, c := s.pool, s.client
	if s.heap+n < 0 {
		p.mu.Unlock()
		panic("mem: Discharge of more than was charged")
	}
	s.heap += n
	c.heap += n
	p.heap += n
	p.heapPages = pagesIn(p.heap)
	if c.heap == 0 {
		c.forget()
	}
}

// Pressed says that memory is short: a request waits that others than its own
// connection and file system hold up, or charges overdraw the ceiling. A
// transport then keeps less for each connection, and reads nothing more from
// peers that do not take what they asked for. It costs one atomic load.
func (p *Pool) Pressed() bool { return p.pressed.Load() }

// Swamped says that charges overdraw the ceiling by a lot: no more can be kept for
// any peer, whatever the reason is that it waits. It costs one atomic load.
func (p *Pool) Swamped() bool { return p.swamped.Load() }

// swampedPages is by how much charges may overdraw the ceiling before that: 16 MiB.
const swampedPages = (16 << 20) / PageSize

// overdrawn is by how many pages charges exceed what the ceiling leaves, or less
// than 1. p.mu is held.
func (p *Pool) overdrawn() int64 {
	return int64(p.inUse()) + p.heapPages - int64(p.total())
}

// swollen says that charges and pages that may be resident, in use or not, exceed
// the ceiling. p.mu is held.
func (p *Pool) swollen() bool {
	return p.heapPages > 0 && p.pinned == 0 &&
		int64(p.resident())+p.heapPages > int64(p.total())
}
