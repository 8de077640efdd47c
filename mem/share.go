package mem

import (
	"slices"
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
	pool    *Pool
	client  *client
	holder  Holder
	limit   int32 // most pages that it may hold
	largest int32 // most pages of one request

	// Guarded by pool.mu.
	pages  int32           // pages that it holds
	heap   int64           // bytes of Go heap charged to it
	queues []*requestQueue // the queues of its waiting requests, in the order of their turns
	owed   int             // ready requests whose Granted is not called yet
	at     int             // its index in pool.shares
	closed bool

	progress
}

// NewShare opens a share that has a client of its own. If the pool is closed, so is the share.
func (p *Pool) NewShare() *Share { return p.OpenShare(nil, nil) }

// OpenShare opens a share. key names its client, and must be comparable, for example an address.
// Shares with equal keys belong to one client: they take turns as one. A share with the key nil has
// a client of its own. If h is not nil, the pool may call its methods while memory is short
// (Holder).
func (p *Pool) OpenShare(key any, h Holder) *Share {
	s := &Share{pool: p, holder: h, limit: p.limit, largest: min(p.limit, p.main.total)}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		s.client, s.closed = new(client), true
		return s
	}
	s.client = p.clientLocked(key)
	s.client.shares++
	s.at = len(p.shares)
	p.shares = append(p.shares, s)
	return s
}

// Get asks for r.Size bytes. The caller must not change r until Granted is called, or Cancel
// returns true. Among the requests of this share in the same Group, or without a Group, those of
// up to 64 KiB are granted in the order of Get, and so are the larger ones. But a request of one
// kind may overtake one of the other kind. Get panics if r still waits.
func (s *Share) Get(r *Request) {
	p := s.pool
	n := pagesOf(r.Size)
	p.mu.Lock()
	if r.waiter.share != nil {
		p.mu.Unlock()
		panic("mem: Get of a Request that waits already")
	}
	g := p.groupLocked(r.Group)
	if g.pool != p {
		p.mu.Unlock()
		panic("mem: Get with a Group of another Pool")
	}
	var err error
	switch {
	case s.closed:
		err = ErrClosed
	case n > int64(s.largest):
		err = ErrTooLarge
	}
	if err != nil {
		p.refused++
		p.mu.Unlock()
		r.Granted(r, nil, err)
		return
	}
	b := s.takeLocked(g, int32(n), r.Size)
	switch {
	case b != nil && s.owed == 0:
		p.mu.Unlock()
		r.Granted(r, b, nil)
		return
	case b != nil:
		r.waiter = waiter{request: r, share: s}
		p.settleLocked(&r.waiter, b, nil)
	default:
		r.waiter = waiter{request: r, share: s, pages: int32(n), tick: p.tick}
		p.enqueueLocked(&r.waiter, g)
		p.grantLocked()
	}
	p.deliverAndUnlock()
}

// TryGet returns size bytes at once or fails: it fails if Get would wait or return an error.
func (s *Share) TryGet(size int) (*Buffer, bool) { return s.TryGetIn(nil, size) }

// TryGetIn is TryGet for memory that counts for the Group g (see Request.Group).
func (s *Share) TryGetIn(g *Group, size int) (*Buffer, bool) {
	n := pagesOf(size)
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	if s.closed || n > int64(s.largest) {
		return nil, false
	}
	b := s.takeLocked(s.pool.groupLocked(g), int32(n), size)
	return b, b != nil
}

// Cancel takes back a Request that still waits; then Granted will not be called. If it returns
// false, Granted was called or is about to be called, and the caller has to release the Buffer
// that Granted gets.
func (s *Share) Cancel(r *Request) bool {
	p := s.pool
	p.mu.Lock()
	if r.waiter.share != s || r.waiter.queue == nil {
		p.mu.Unlock()
		return false
	}
	p.withdrawLocked(&r.waiter)
	r.waiter = waiter{}
	p.grantLocked()
	p.deliverAndUnlock()
	return true
}

// Close closes the share: waiting requests and every later Get get ErrClosed. The caller still has
// to release granted Buffers, and to undo what its Ledger has charged (Ledger.Add).
func (s *Share) Close() {
	p := s.pool
	p.mu.Lock()
	p.closeShareLocked(s)
	p.grantLocked()
	p.deliverAndUnlock()
}

// closeShareLocked closes s. All its waiting requests get ErrClosed.
func (p *Pool) closeShareLocked(s *Share) {
	if s.closed {
		return
	}
	s.closed = true
	last := len(p.shares) - 1
	p.shares[s.at], p.shares[last].at = p.shares[last], s.at
	p.shares = slices.Delete(p.shares, last, last+1)
	for len(s.queues) > 0 {
		r := s.queues[0].First
		p.withdrawLocked(r)
		p.refused++
		p.settleLocked(r, nil, ErrClosed)
	}
	s.client.shares--
	p.forgetLocked(s.client)
}

// InUse returns how many bytes of payload memory the share holds now.
func (s *Share) InUse() int64 {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	return int64(s.pages) * PageSize
}

// takeLocked returns a Buffer of n pages. size is the length of its Bytes. It returns nil if the
// request has to wait: behind another request, for a limit, or for free pages.
func (s *Share) takeLocked(g *Group, n int32, size int) *Buffer {
	p := s.pool
	if s.queueLocked(g, n <= smallPages) != nil || !s.fitsLocked(nil, n) {
		return nil
	}
	var e extent
	ok := p.next == nil && !g.blocked && g.roomLocked(n)
	if ok {
		e, ok = p.takeMainLocked(n)
	}
	if !ok {
		if e, ok = p.takeReserveLocked(s.client, n); !ok {
			return nil
		}
	}
	return p.bufferLocked(s, g, e, size)
}

// queueLocked returns the requestQueue of s for requests of g, or nil: the one for small requests
// if the parameter small is true, otherwise the one for the others.
func (s *Share) queueLocked(g *Group, small bool) *requestQueue {
	for _, q := range s.queues {
		if q.group == g && q.small == small {
			return q
		}
	}
	return nil
}

// fitsLocked reports whether the limit of the share allows n more pages for q, or, if q is nil, for
// a request that does not wait. They must leave room for the queue of the share that comes first,
// so that small requests do not starve a large one, unless that queue waits for something other
// than the limit of the share.
func (s *Share) fitsLocked(q *requestQueue, n int32) bool {
	if len(s.queues) > 0 && s.queues[0] != q {
		first := s.queues[0]
		if waits := first.group.blocked || first.need() > s.pool.fits; !waits || !s.roomLocked(first.need()) {
			n += first.need()
		}
	}
	return s.roomLocked(n)
}

// roomLocked reports whether the share's limit allows n more pages.
func (s *Share) roomLocked(n int32) bool { return s.pages+n <= s.limit }

// holdLocked adds n pages, which may be negative, to the holdings of s, its client and g. The
// parameter main is true for pages of the main zone.
func (p *Pool) holdLocked(s *Share, g *Group, n int32, main bool) {
	g.holdLocked(n, main)
	s.pages += n
	if s.client.pages += n; s.client.pages == 0 {
		p.forgetLocked(s.client)
	}
}

// A Buffer is a contiguous block of payload memory. It begins at the start of a page, and counts
// its references. It implements xdr.Releaser.
//
// A Buffer starts with one reference. Releasing the last one returns the memory to its pool,
// share and group; using Bytes after that is a programming error. All methods may be called from
// any goroutine.
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

// bufferLocked returns the Buffer for e, which s and g hold from now on. Unused Buffers are used
// again, so that in steady state none is allocated.
func (p *Pool) bufferLocked(s *Share, g *Group, e extent, size int) *Buffer {
	b := p.unused
	if b == nil {
		b = new(Buffer)
		b.refs.Store(1)
		p.buffers = append(p.buffers, b)
	} else {
		p.unused, b.unused = b.unused, nil
	}
	p.holdLocked(s, g, e.pages, e.page < p.main.total)
	from, to := int(e.page)*PageSize, int(e.page+e.pages)*PageSize
	b.bytes = p.arena[from : from+size : to]
	b.share, b.group, b.extent, b.tick = s, g, e, p.tick
	p.granted++
	if n := p.inUse(); n > p.recent {
		p.recent, p.peak = n, max(p.peak, n)
	}
	return b
}

// free takes back the memory of a Buffer whose last reference was released.
func (s *Share) free(b *Buffer) {
	p := s.pool
	p.mu.Lock()
	p.putBackLocked(s.client, b.extent)
	p.holdLocked(s, b.group, -b.pages, b.page < p.main.total)
	b.bytes, b.share, b.group = nil, nil, nil
	b.unused, p.unused = p.unused, b
	if p.waiting == 0 && !p.short && !p.closed {
		p.mu.Unlock()
		return
	}
	p.grantLocked()
	p.unmapLocked()
	p.deliverAndUnlock()
}

// pagesOf returns how many pages size bytes occupy. For an invalid size it returns more than any
// limit.
func pagesOf(size int) int64 {
	if size < 0 {
		return maxPages + 1
	}
	return max(1, (int64(size)-1)/PageSize+1)
}
