package mem

// Charge records n bytes of the Go heap that the share's peer makes this process keep: replies
// waiting to be sent, copies, input kept for later. Charged bytes take the place of payload
// memory: together both stay within the ceiling as far as possible. Charge never waits and never
// fails. It may overdraw the ceiling; then Pressed is true, and the pool ends shares that make no
// progress.
//
// The garbage collector may need as much memory again. That is not counted.
func (s *Share) Charge(n int) {
	p := s.pool
	p.mu.Lock()
	s.charges(int64(n))
	p.watch()
	p.deliver()
}

// Discharge removes n bytes from the charges. The caller must remove all charges, also after
// Close.
func (s *Share) Discharge(n int) {
	p := s.pool
	p.mu.Lock()
	s.charges(-int64(n))
	p.grant()
	p.deliver()
}

// Charged returns how many bytes are charged to the share now.
func (s *Share) Charged() int64 {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	return s.heap
}

// charges changes the charges by n bytes. The caller holds p.mu.
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

// Pressed reports whether memory is short: a request waits for memory that other connections or
// file systems hold, or charges overdraw the ceiling. A transport then keeps less for each
// connection, and does not read from peers that do not take their replies. It costs one atomic
// load.
func (p *Pool) Pressed() bool { return p.pressed.Load() }

// leastCalls is the number of calls that a connection may always have under way.
const leastCalls = 2

// Full reports whether a connection of the share, with so many calls under way, must not begin
// another one now.
//
// Calls wait for an executor, for memory or for the peer. Meanwhile each transport charges their
// messages and replies. A client's charges may be half of what the other clients' charges leave
// of the ceiling; so a single client may use half of it, and always leaves as much for others.
// Beyond that, each of the client's connections may have leastCalls under way. Meanwhile TCP does
// not read, and RDMA, where messages arrive all the same, keeps them as they arrived. So all
// clients together keep no more than the ceiling plus leastCalls for each connection. A
// connection that is full has a call of its own under way, and continues when that ends; or when
// its transport looks again, some seconds later at most, because others may have given memory
// back. Full takes no lock.
func (s *Share) Full(calls int64) bool {
	p := s.pool
	if calls < leastCalls {
		return false
	}
	own := s.client.heap.Load()
	return own > (int64(p.total())*PageSize-(p.heap.Load()-own))/2
}

// overdrawn returns by how many pages the charges exceed the room that the ceiling leaves; 0 or
// less if they do not. The caller holds p.mu.
func (p *Pool) overdrawn() int64 {
	return int64(p.inUse()) + p.heapPages - int64(p.total())
}

// swollen reports whether charges plus pages that may be resident, used or free, exceed the
// ceiling. The caller holds p.mu.
func (p *Pool) swollen() bool {
	return p.heapPages > 0 && p.pinned == 0 &&
		int64(p.resident())+p.heapPages > int64(p.total())
}
