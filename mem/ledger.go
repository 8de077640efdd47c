package mem

import "sync/atomic"

// If the sum of a Ledger has changed by ledgerStep bytes or more, or has become 0, the Ledger
// changes the charge of its share.
const ledgerStep = 16 << 10

// A Ledger adds up the Go heap memory that one connection makes this process keep, and charges it
// to the connection's share. A charge takes the place of payload memory below the ceiling
// (chargeHeapLocked). The Ledger collects small changes and changes the charge in large steps, so
// that most changes cost one atomic addition. A share has at most one Ledger, and only this Ledger
// changes its charge. The zero Ledger charges no share.
type Ledger struct {
	share   *Share
	n, told atomic.Int64
}

// Open makes l the Ledger of s. Call it before the first Add.
func (l *Ledger) Open(s *Share) { l.share = s }

// Add adds n bytes to the sum; a negative n removes them. The charge is one and a half times the
// sum, because of garbage that is not collected yet.
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

// chargeHeapLocked changes the charge of s by n bytes. Charged bytes take the place of payload
// memory: they count as used pages of the main zone (takeMainLocked). A charge never waits and
// never fails. It may exceed the ceiling; then Pressed is true, and the pool makes connections end
// whose peers make no progress (Holder.End).
func (s *Share) chargeHeapLocked(n int64) {
	p, c := s.pool, s.client
	s.heap += n
	c.heap.Add(n)
	p.heapPages = pagesIn(p.heap.Add(n))
	p.forgetLocked(c)
}

// Pressed reports whether memory is short: a request waits for free pages, or charges and used
// pages together exceed the ceiling. A request that waits only for the limit of its share or Group
// does not count. While Pressed is true, a transport keeps less memory for each connection, and
// does not read from peers that do not take their replies. Pressed costs one atomic load.
func (p *Pool) Pressed() bool { return p.pressed.Load() }

// leastCalls is the number of calls that a connection may always have under way.
const leastCalls = 2

// Full reports whether a connection of the share must not begin another call now. calls is the
// number of its calls under way.
//
// Calls wait for an executor, for memory or for the peer. Meanwhile each transport charges the
// memory for their messages and replies to the share (Ledger). A client's charges may be at most
// half of that part of the ceiling which the charges of the other clients leave. So a single client
// may use half of the ceiling. A client whose charges exceed this limit may still have leastCalls
// calls under way on each connection. While a connection is full, TCP does not read from it, and
// RDMA, which cannot stop messages from arriving, keeps them as received. So all clients together
// keep no more than the ceiling and the memory of leastCalls calls for each connection. A full
// connection has calls under way, and continues when one of them ends. Its transport also checks
// again every few seconds, because other connections may have released memory. Full takes no lock.
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

// swollenLocked reports whether free pages have to be given back to the kernel, because charges and
// all pages that may be resident, used or free, together exceed the ceiling. It is false if a
// device uses the arena, because then no pages can be given back.
func (p *Pool) swollenLocked() bool {
	return p.heapPages > 0 && p.pinned == 0 &&
		int64(p.resident())+p.heapPages > int64(p.total())
}

// pagesIn returns the number of pages for n bytes.
func pagesIn(n int64) int64 { return (n + PageSize - 1) / PageSize }
