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
	c.heap.Add(n)
	p.heapPages = pagesIn(p.heap.Add(n))
	if c.heap.Load() == 0 {
		c.forget()
	}
}

// Pressed says that memory is short: a request waits that others than its own
// connection and file system hold up, or charges overdraw the ceiling. A
// transport then keeps less for each connection, and reads nothing more from
// peers that do not take what they asked for. It costs one atomic load.
func (p *Pool) Pressed() bool { return p.pressed.Load() }

// leastCalls is how many calls a connection may have under way in any case.
const leastCalls = 2

// Full says whether a connection of the share that has so many calls under way is to begin
// no other now. Calls wait: for an executor, for memory, for the peer. While they do, their
// messages and replies are charged, each transport's in the same way. A client may have
// charged to it half of what all other clients leave of the ceiling: one alone half of it, and
// it always leaves as much for the clients to come. Beyond that each of its connections has
// leastCalls under way at a time. TCP does not read meanwhile, and RDMA, where the messages
// come all the same, keeps them as they arrived. So all together keep no more than the
// ceiling, and leastCalls for each connection; and as each connection that waits has a call
// of its own under way, it goes on when that ends, and needs no other to wake it. It takes no
// lock.
func (s *Share) Full(calls int64) bool {
	p := s.pool
	if calls < leastCalls {
		return false
	}
	own := s.client.heap.Load()
	return own > (int64(p.total())*PageSize-(p.heap.Load()-own))/2
}

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
