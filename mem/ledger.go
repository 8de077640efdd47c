package mem

import "sync/atomic"

// ledgerStep is the largest difference, in bytes, between a Ledger and the charges of its share.
const ledgerStep = 16 << 10

// A Ledger adds up the Go heap memory that one connection makes this process keep. It collects
// small changes and charges the share in large steps, so that most changes cost one atomic
// addition. Nothing else charges a share with a Ledger. The zero Ledger charges no share.
type Ledger struct {
	share   *Share
	n, told atomic.Int64
}

// Open makes l the ledger of s. Call it before the first Add.
func (l *Ledger) Open(s *Share) { l.share = s }

// Add adds n bytes; a negative n removes them. The share is charged one and a half times the sum,
// because of garbage that is not collected yet.
func (l *Ledger) Add(n int) {
	if l.share == nil || n == 0 {
		return
	}
	is, told := l.n.Add(int64(n)), l.told.Load()
	if is-told < ledgerStep && told-is < ledgerStep && (is != 0 || told == 0) {
		return
	}
	p := l.share.pool
	p.mu.Lock()
	// Other goroutines may have added meanwhile. Charge the present value.
	is = l.n.Load()
	l.told.Store(is)
	l.share.chargeHeapLocked(is + is/2 - l.share.heap)
	p.grantLocked()
	p.watchLocked()
	p.deliverAndUnlock()
}

// chargeHeapLocked changes the charges of s by n bytes. Charged bytes take the place of payload
// memory: together both stay within the ceiling as far as possible. A charge never waits and never
// fails. It may overdraw the ceiling; then Pressed is true, and the pool ends shares that make no
// progress.
//
// The garbage collector may need as much memory again. That is not counted.
func (s *Share) chargeHeapLocked(n int64) {
	p, c := s.pool, s.client
	s.heap += n
	c.heap.Add(n)
	p.heapPages = pagesIn(p.heap.Add(n))
	if c.heap.Load() == 0 {
		c.forgetLocked()
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
// messages and replies. A client's charges may be half of what the other clients' charges leave of
// the ceiling; so a single client may use half of it, and always leaves as much for others. Beyond
// that, each of the client's connections may have leastCalls under way. While a connection is full,
// TCP does not read from it, and RDMA, which cannot stop messages from arriving, keeps them as
// received. So all clients together keep no more than the ceiling plus leastCalls for each
// connection. A full connection has calls of its own under way, and continues when one of them
// ends. Its transport also checks again every few seconds, because other connections may have
// released memory. Full takes no lock.
func (s *Share) Full(calls int64) bool {
	p := s.pool
	if calls < leastCalls {
		return false
	}
	own := s.client.heap.Load()
	return own > (int64(p.total())*PageSize-(p.heap.Load()-own))/2
}

// overdrawnLocked returns the number of pages by which charges and used pages together exceed the
// ceiling; it is 0 or less if they do not.
func (p *Pool) overdrawnLocked() int64 {
	return int64(p.inUse()) + p.heapPages - int64(p.total())
}

// swollenLocked reports whether charges and the pages that may be resident, used or free, together
// exceed the ceiling.
func (p *Pool) swollenLocked() bool {
	return p.heapPages > 0 && p.pinned == 0 &&
		int64(p.resident())+p.heapPages > int64(p.total())
}
