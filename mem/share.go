package mem

import (
	"sync/atomic"
)

// A Request asks a Share for one block. The zero Request with Size and Granted set is ready for
// use; it may be used again as soon as the pool has called Granted, and also by Granted itself.
type Request struct {
	// Size is how many bytes are needed. A Request of 0 bytes gets an empty Buffer that occupies
	// a page.
	Size int
	// Granted is called exactly once for each Get that was not cancelled, with a Buffer of Size
	// bytes and one reference, or with an error (ErrTooLarge, ErrClosed). It may be called before
	// Get returns. It may also run on any goroutine that calls a method of the Pool, a Share or a
	// Buffer, or on a goroutine of the pool. It must be short and must not block. It may call
	// Release, Get and Cancel, because the pool holds no lock meanwhile.
	Granted func(r *Request, b *Buffer, err error)
	// Context is a value for the caller, who may use it in Granted. The pool does not use it.
	Context any
	// Group, if set, counts the memory as its own, and its limit applies too. It must be a Group of
	// the same Pool.
	Group *Group

	waiter waiter
}

// A Share counts and limits the memory that one connection holds of a Pool. All methods may be
// called from any goroutine; none blocks.
type Share struct {
	pool   *Pool
	client *Client
	holder Holder

	// Guarded by pool.mu.
	holding
	ledger *Ledger         // nil if it has none
	heap   int64           // bytes of Go heap charged to it
	queues []*requestQueue // the queues of its waiting requests
	full   *requestQueue   // queue for which the other queues wait; see fullLocked
	owed   int             // ready requests whose Granted is not called yet
	at     int             // its index in pool.shares
	closed bool

	progress
}

// NewShare opens a share that has a Client of its own. If the pool is closed, so is the share.
func (p *Pool) NewShare() *Share { return p.OpenShare(nil, nil) }

// OpenShare opens a share. client is the key of its Client, and must be comparable. Shares with equal
// keys belong to one Client. A share with the key nil has a Client of its own. What Clients hold is
// bounded by site (part.go) only if their keys are of the type netip.Addr. If h is not nil, the pool may
// call its methods while memory is short (Holder).
func (p *Pool) OpenShare(client any, h Holder) *Share {
	s := &Share{pool: p, holder: h}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		s.client, s.closed = &Client{pool: p}, true
		s.client.heap.Under(&p.heap)
		return s
	}
	s.client = p.clientLocked(client)
	s.client.shares++
	s.at = len(p.shares)
	p.shares = append(p.shares, s)
	return s
}

// TryGet returns size bytes at once or fails: it fails if Get would wait or return an error.
func (s *Share) TryGet(size int) (*Buffer, bool) { return s.TryGetIn(nil, size) }

// TryGetIn is TryGet for memory that counts for the Group g (see Request.Group).
func (s *Share) TryGetIn(g *Group, size int) (*Buffer, bool) {
	n := pagesOf(size)
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	if s.refusalLocked(n) != nil {
		return nil, false
	}
	b := s.takeLocked(s.pool.groupLocked(g), int32(n), size)
	return b, b != nil
}

// refusalLocked returns the error for a request of n pages that can never be granted, or nil.
func (s *Share) refusalLocked(n int64) error {
	switch p := s.pool; {
	case s.closed:
		return ErrClosed
	case n > int64(min(p.limit, p.main.total)):
		return ErrTooLarge
	}
	return nil
}

// InUse returns how many bytes of payload memory the share holds now.
func (s *Share) InUse() int64 {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	held := s.pages
	if q := s.pool.current; q != nil && q.share == s {
		held -= q.need()
	}
	return int64(held) * PageSize
}

// roomLocked reports whether the share's limit allows n more pages.
func (s *Share) roomLocked(n int32) bool { return s.pages+n <= s.pool.limit }

// takeLocked returns a Buffer of n pages. size is the length of its Bytes. It returns nil if the
// request has to wait: behind another request, for a limit, or for free pages.
func (s *Share) takeLocked(g *Group, n int32, size int) *Buffer {
	p := s.pool
	if len(s.queues) > 0 && (s.fullLocked() != nil || s.queueLocked(g, n <= smallPages) != nil) {
		return nil
	}
	if !s.roomLocked(n) {
		return nil
	}
	e, ok := p.takeIdleLocked(s.client, g, n)
	if !ok {
		if e, ok = p.takeReserveLocked(s.client, n); !ok {
			return nil
		}
	}
	p.chargeLocked(s, g, n, e.page < p.main.total)
	return p.bufferLocked(s, g, e, size)
}

// takeIdleLocked takes n pages of the main zone for a request of c in g. It fails if another request is
// next in the main zone (p.current), if g is at its limit, if c has its part or another request of its
// site waits for one, or if no block of n pages is free.
func (p *Pool) takeIdleLocked(c *Client, g *Group, n int32) (extent, bool) {
	if !p.idleLocked(c, g, n) {
		return extent{}, false
	}
	return p.main.alloc(n)
}

// idleLocked is takeIdleLocked without a look for the block.
func (p *Pool) idleLocked(c *Client, g *Group, n int32) bool {
	return p.current == nil && !g.blocked && g.roomLocked(n) && !g.boundedLocked(c) && c.mayLocked(g, n)
}

// chargeLocked adds n pages to the holdings of s, its client and g. The parameter main is true for
// pages of the main zone.
func (p *Pool) chargeLocked(s *Share, g *Group, n int32, main bool) {
	if g.held == 0 {
		g.since = p.tick
	}
	g.holdLocked(n, main)
	s.add(g, n)
	c := s.client
	c.add(g, n)
	if main {
		c.holdPartLocked(g, n)
	}
	if c.pages == n && c.queues == 0 {
		p.active++
	}
}

// bufferLocked returns the Buffer for e. Unused Buffers are used again, so that
// in steady state none is allocated.
func (p *Pool) bufferLocked(s *Share, g *Group, e extent, size int) *Buffer {
	b := p.unused
	if b == nil {
		b = new(Buffer)
		b.refs.Store(1)
		p.buffers = append(p.buffers, b)
	} else {
		p.unused, b.unused = b.unused, nil
	}
	from, to := int(e.page)*PageSize, int(e.page+e.pages)*PageSize
	b.bytes = p.arena[from : from+size : to]
	b.share, b.group, b.extent, b.tick = s, g, e, p.tick
	p.granted++
	if n := p.inUse(); n > p.recent {
		p.recent, p.peak = n, max(p.peak, n)
	}
	return b
}

// A Buffer is a contiguous block of payload memory, which begins at the start of a page. It starts
// with one reference. The release of the last one returns the memory; using Bytes after that is a
// programming error. All methods may be called from any goroutine. It implements xdr.Releaser.
type Buffer struct {
	bytes  []byte
	refs   atomic.Int32
	share  *Share
	group  *Group
	tick   uint64  // Pool.tick when the Buffer was granted
	unused *Buffer // the next in the pool's list of unused Buffers
	extent
}

// Bytes returns the memory: the requested number of bytes, with a capacity of whole pages. Its
// content is undefined at first: write every byte before it goes to a reply or a file.
func (b *Buffer) Bytes() []byte { return b.bytes }

// Retain adds a reference.
func (b *Buffer) Retain() {
	if b.share == nil {
		panic("mem: Retain of a released Buffer")
	}
	b.refs.Add(1)
}

// Release drops a reference. If requests waited for the memory, it may call their Granted.
func (b *Buffer) Release() {
	s := b.share
	if s == nil {
		panic("mem: Release of a released Buffer")
	}
	// A Buffer that is not used keeps a count of 1, which is the first reference of its next user.
	// So the release of the last reference need not write the count.
	if b.refs.Load() != 1 {
		if b.refs.Add(-1) > 0 {
			return
		}
		b.refs.Store(1)
	}
	s.free(b)
}

// free takes back the memory of a Buffer whose last reference was released.
func (s *Share) free(b *Buffer) {
	p := s.pool
	p.mu.Lock()
	g := b.group
	p.putBackLocked(s.client, b.extent)
	p.dischargeLocked(s, g, b.pages, b.page < p.main.total)
	g.since = p.tick
	b.bytes, b.share, b.group = nil, nil, nil
	b.unused, p.unused = p.unused, b
	if p.waiting == 0 && !p.Pressed() && !p.closed {
		p.mu.Unlock()
		return
	}
	p.grantLocked()
	p.unmapLocked()
	p.deliverAndUnlock()
}

// dischargeLocked undoes chargeLocked.
func (p *Pool) dischargeLocked(s *Share, g *Group, n int32, main bool) {
	g.holdLocked(-n, main)
	s.add(g, -n)
	c := s.client
	if main {
		c.holdPartLocked(g, -n)
	}
	c.add(g, -n)
	if c.pages == 0 && c.queues == 0 {
		p.active--
		c.forgetLocked()
	}
}

// pagesOf returns how many pages size bytes occupy. For an invalid size it returns more than any
// limit.
func pagesOf(size int) int64 {
	if size < 0 {
		return maxPages + 1
	}
	return max(1, (int64(size)-1)/PageSize+1)
}

// pagesIn returns the number of pages for n bytes.
func pagesIn(n int64) int64 { return (n + PageSize - 1) / PageSize }

// If the sum of a Ledger has changed by ledgerStep bytes or more, or has become 0, the Ledger
// changes the charge of its share.
const ledgerStep = 16 << 10

// A Ledger adds up the Go heap memory that one connection makes this process keep, and charges it to
// the connection's share (chargeHeapLocked) in large steps, so that most changes cost one atomic
// addition. A share has at most one Ledger. The zero Ledger charges no share.
type Ledger struct {
	share   *Share
	n, told atomic.Int64
}

// Open makes l the Ledger of s. Call it before the first Add.
func (l *Ledger) Open(s *Share) { l.share, s.ledger = s, l }

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
	l.tellLocked()
	p.watchLocked()
	p.mu.Unlock()
}

// tellLocked charges the share for the present sum.
func (l *Ledger) tellLocked() {
	is := l.n.Load()
	l.told.Store(is)
	// Add reads told after it has changed n. So either it sees that told is out of date, or this loop
	// sees the new sum.
	for now := l.n.Load(); now != is; now = l.n.Load() {
		is = now
		l.told.Store(is)
	}
	l.share.chargeHeapLocked(is + is/2 - l.share.heap)
}

// chargeHeapLocked changes the charge of s by n bytes. A charge never waits and never fails, because
// its memory is in use already. If the charges exceed chargesOf, Pressed is true, and connections end
// whose peers make no progress.
func (s *Share) chargeHeapLocked(n int64) {
	p, c := s.pool, s.client
	s.heap += n
	c.heap.Add(n)
	p.heapPages = pagesIn(p.heap.Held())
	if c.heap.Held() == 0 {
		c.forgetLocked()
	}
}

// chargesOf returns the account for charges in bytes: a quarter of the ceiling, in addition to the
// ceiling. Calls that wait for payload memory are charged. If payload memory and charges had one
// account, the waiting calls could fill it, and no call would get memory or end any more.
func (p *Pool) chargesOf() int64 { return int64(p.total()) * PageSize / 4 }

// Pressed reports whether memory is short: a request waits for free pages, or the charges exceed
// their account (chargesOf). While it is true, a transport keeps less memory for each connection, and
// does not read from peers that do not take their replies. It costs one atomic load.
func (p *Pool) Pressed() bool { return p.pressed.Load() }

// LeastCalls is the number of calls that a connection may always have under way.
const LeastCalls = 2

// Full reports whether a connection of the share must not begin another call now. calls is the number
// of its calls under way; a connection may always have LeastCalls. A connection is full if its client or its
// site has of the account (chargesOf) what the rule for units that only their holders give back allows it
// (fair.Count), or if nothing of the account is left. Then TCP does not read from it. RDMA, which
// cannot stop messages from arriving, keeps them as received, and grants LeastCalls credits, so that fewer
// arrive. So all clients together keep no more than the account, LeastCalls calls for each connection, and
// the RDMA messages for which credits were granted before. The connection continues when one of its calls
// ends; its transport also checks every few seconds, because other connections may have released memory.
// Full takes no lock.
func (s *Share) Full(calls int64) bool { return calls >= LeastCalls && s.client.heap.Room() <= 0 }
