package mem

// A Request asks a Share for one block. The zero Request with Size and Granted
// set is ready for use; it may be used again from within Granted on.
type Request struct {
	// Size is how many bytes are needed. 0 gives an empty Buffer that
	// occupies a page.
	Size int
	// Granted is called exactly once for each Get that was not cancelled,
	// with a Buffer of Size bytes and one reference, or with an error
	// (ErrTooLarge, ErrClosed). It may be called before Get returns, and from
	// the goroutine of whoever released the memory: it must not block, and
	// may release, Get and Cancel. No lock is held.
	Granted func(r *Request, b *Buffer, err error)
	// Context is the caller's own.
	Context any
	// Group, where set, bounds the request too. It belongs to the same Pool.
	Group *Group

	queued // the pool's bookkeeping
}

// A Share is what one connection may hold of a Pool. All methods may be called
// from any goroutine, none blocks.
type Share struct {
	pool    *Pool
	limit   int32 // pages
	largest int32 // pages of one request

	// Guarded by pool.mu.
	charged  int32 // pages held, or waited for in the pool's queue
	waiting  fifo  // requests that the limit holds back
	admitted int   // requests in the pool's queue
	owed     int   // requests that are ready, their Granted not called
	closed   bool
}

// Get asks for r.Size bytes. r belongs to the share until Granted is called,
// or Cancel returned true. Of one share and one group (or none), requests are
// granted in the order of Get. A Request that still waits must not be handed to Get again.
func (s *Share) Get(r *Request) {
	p := s.pool
	n := pagesOf(r.Size)
	p.mu.Lock()
	if r.place != nowhere {
		p.mu.Unlock()
		panic("mem: Get of a Request that waits already")
	}
	if g := r.Group; g != nil && g.pool != p {
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
	if b := s.take(r.Group, int32(n), r.Size); b != nil && s.owed == 0 {
		p.mu.Unlock()
		r.Granted(r, b, nil)
		return
	} else if b != nil {
		r.share = s
		p.settle(r, b, nil)
		p.deliver()
		return
	}
	p.tickets++
	r.share, r.group, r.pages, r.ticket = s, r.Group, int32(n), p.tickets
	p.queuedNow++
	p.waited++
	p.enqueue(r)
	p.mu.Unlock()
}

// TryGet gives size bytes at once or not at all: it fails where Get would
// wait or refuse.
func (s *Share) TryGet(size int) (*Buffer, bool) { return s.TryGetIn(nil, size) }

// TryGetIn is TryGet for what a group bounds too; nil is none.
func (s *Share) TryGetIn(g *Group, size int) (*Buffer, bool) {
	n := pagesOf(size)
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	if s.closed || n > int64(s.largest) {
		return nil, false
	}
	b := s.take(g, int32(n), size)
	return b, b != nil
}

// Cancel takes back a Request that still waits; Granted will not be called.
// Where it returns false, Granted was called or is about to be, and the caller
// releases what it gets by that.
func (s *Share) Cancel(r *Request) bool {
	p := s.pool
	p.mu.Lock()
	if r.share != s || r.place == nowhere || r.place == inReady {
		p.mu.Unlock()
		return false
	}
	p.withdraw(r)
	g := r.group
	r.queued = queued{}
	p.admit(s, g)
	p.grant()
	p.deliver()
	return true
}

// Close ends the share: what waits gets ErrClosed, and so does every later
// Get. Buffers already granted go back by Release, as ever.
func (s *Share) Close() {
	p := s.pool
	p.mu.Lock()
	p.shut(s)
	p.grant()
	p.deliver()
}

// InUse is how many bytes the share holds now.
func (s *Share) InUse() int64 {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	held := s.charged
	for r := s.pool.waiting.head; r != nil && s.admitted > 0; r = r.next {
		if r.share == s {
			held -= r.pages
		}
	}
	return int64(held) * PageSize
}

// room says whether the limit allows n pages more. pool.mu is held.
func (s *Share) room(n int32) bool { return s.charged+n <= s.limit }

// lets says whether r may be charged: nobody who came earlier waits. pool.mu is
// held.
func (s *Share) lets(r *Request) bool { return s.waiting.first(r) && s.room(r.pages) }

// take gives n pages where nobody waits before the caller. pool.mu is held.
func (s *Share) take(g *Group, n int32, size int) *Buffer {
	p := s.pool
	if s.waiting.head != nil || p.waiting.head != nil || !s.room(n) {
		return nil
	}
	if g != nil && (g.waiting.head != nil || !g.room(n)) {
		return nil
	}
	e, ok := p.pages.alloc(n)
	if !ok {
		return nil
	}
	s.charged += n
	g.charge(n)
	return p.buffer(s, g, e, size)
}

// free takes back the memory of a Buffer whose last reference went.
func (s *Share) free(b *Buffer) {
	p := s.pool
	p.mu.Lock()
	p.pages.release(b.extent)
	p.inUse -= b.pages
	s.charged -= b.pages
	g := b.group
	g.charge(-b.pages)
	b.bytes, b.share, b.group = nil, nil, nil
	b.unused, p.unused = p.unused, b
	p.admit(s, g)
	p.grant()
	p.unmap()
	p.deliver()
}

// pagesOf is how many pages size bytes occupy; more than any limit for a size
// that cannot be.
func pagesOf(size int) int64 {
	if size < 0 {
		return maxPages + 1
	}
	return max(1, (int64(size)-1)/PageSize+1)
}
