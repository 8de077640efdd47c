package mem

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"unsafe"
)

const mib = 1 << 20

// large1 is the least size, in whole pages, that is not small.
const large1 = (smallPages + 1) * PageSize

// ceilingOf returns the ceiling of a pool whose main zone has this number of bytes.
func ceilingOf(main int64) int64 {
	c := max(main+1<<20, main/15*16) &^ (PageSize - 1)
	for c-int64(reserveOf(int32(c/PageSize)))*PageSize < main {
		c += PageSize
	}
	return c
}

// newPool makes a pool. main is the size of the main zone, and share the limit of a share, in
// bytes; 0: half of the main zone.
func newPool(t testing.TB, main, share int64) *Pool {
	t.Helper()
	if share == 0 {
		share = main / 2
	}
	return configured(t, Config{Ceiling: ceilingOf(main), Share: share, Group: main / 2})
}

// configured makes a pool, and fails the test if memory is left at the end.
func configured(t testing.TB, cfg Config) *Pool {
	t.Helper()
	p, err := NewPool(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		audited(t, p)
		p.Close()
		audited(t, p)
		if st := p.Stats(); st.InUse != 0 || st.Waiting != 0 {
			t.Errorf("at the end %d bytes are in use and %d requests wait", st.InUse, st.Waiting)
		}
	})
	return p
}

// A wish is a Request that records its result.
type wish struct {
	Request
	mu     sync.Mutex
	name   string
	calls  int
	buffer *Buffer
	err    error
}

func newWish(name string, size int, log *[]string) *wish {
	w := &wish{name: name}
	w.Size = size
	w.Granted = func(r *Request, b *Buffer, err error) {
		if r != &w.Request {
			panic("Granted is called with another Request")
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.calls++
		w.buffer, w.err = b, err
		if log != nil {
			*log = append(*log, w.name)
		}
	}
	return w
}

func (w *wish) want(t *testing.T, calls int, err error) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calls != calls || w.err != err || (w.buffer != nil) != (calls > 0 && err == nil) {
		t.Fatalf("%s: Granted %d times, buffer %v, error %v; want %d times, error %v",
			w.name, w.calls, w.buffer != nil, w.err, calls, err)
	}
}

func TestNewPoolRefusesBadConfig(t *testing.T) {
	for _, c := range []Config{{}, {Ceiling: MinCeiling - 1}, {Ceiling: -1}, {Ceiling: 1 << 60},
		{Ceiling: MinCeiling, Share: -1}, {Ceiling: MinCeiling, Share: PageSize - 1}} {
		if _, err := NewPool(c); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}

func TestGetGivesAlignedMemoryOfTheSizeAskedFor(t *testing.T) {
	p := newPool(t, 64*mib, 0)
	s := p.NewShare()
	for _, size := range []int{0, 1, PageSize, PageSize + 1, mib, mib + PageSize, 32 * mib} {
		w := newWish("w", size, nil)
		s.Get(&w.Request)
		w.want(t, 1, nil)
		b := w.buffer.Bytes()
		if len(b) != size || cap(b)%PageSize != 0 || cap(b) >= size+PageSize && size > 0 {
			t.Fatalf("size %d: length %d, capacity %d", size, len(b), cap(b))
		}
		if uintptr(unsafe.Pointer(unsafe.SliceData(b)))%PageSize != 0 {
			t.Fatalf("size %d: not page-aligned", size)
		}
		if size > 0 {
			b[0], b[size-1] = 1, 1
		}
		if got := s.InUse(); got != int64(cap(b)) {
			t.Fatalf("size %d: the share holds %d", size, got)
		}
		w.buffer.Release()
	}
	if st := p.Stats(); st.InUse != 0 || st.Peak != 32*mib || st.Granted != 7 || st.Waited != 0 {
		t.Fatalf("%+v", st)
	}
}

func TestTooLargeRequestIsRefusedAtOnce(t *testing.T) {
	p := newPool(t, 6*mib, 0)
	s := p.NewShare()
	for _, size := range []int{3*mib + 1, 1 << 62, -1} {
		w := newWish("w", size, nil)
		s.Get(&w.Request)
		w.want(t, 1, ErrTooLarge)
		if _, ok := s.TryGet(size); ok {
			t.Fatalf("TryGet of %d succeeds", size)
		}
	}
	// A large request cannot use the reserve for small requests.
	whole := configured(t, Config{Ceiling: 7 * mib, Share: 7 * mib}).NewShare()
	w := newWish("w", 6*mib+1, nil)
	whole.Get(&w.Request)
	w.want(t, 1, ErrTooLarge)
	w = newWish("w", 6*mib, nil)
	whole.Get(&w.Request)
	w.want(t, 1, nil)
	w.buffer.Release()
}

// A share at its limit waits for its own memory and delays no other share.
func TestShareAtItsLimitDelaysNoOtherShare(t *testing.T) {
	p := newPool(t, 8*mib, 2*mib)
	var log []string
	a, b := p.NewShare(), p.NewShare()
	a1, a2 := newWish("a1", 2*mib, &log), newWish("a2", mib, &log)
	a3, a4 := newWish("a3", 2*mib, &log), newWish("a4", PageSize, &log)
	b1 := newWish("b1", 2*mib, &log)
	for _, w := range []*wish{a1, a2, a3, a4} {
		a.Get(&w.Request)
	}
	b.Get(&b1.Request)
	if _, ok := a.TryGet(1); ok {
		t.Fatal("TryGet passes the share's own queue")
	}
	if !slices.Equal(log, []string{"a1", "b1"}) {
		t.Fatal(log)
	}
	a1.buffer.Release() // a2 fits; a3 does not, and a4 must not pass it
	if !slices.Equal(log, []string{"a1", "b1", "a2"}) {
		t.Fatal(log)
	}
	a2.buffer.Release()
	a3.buffer.Release()
	if !slices.Equal(log, []string{"a1", "b1", "a2", "a3", "a4"}) {
		t.Fatal(log)
	}
	a4.buffer.Release()
	b1.buffer.Release()
}

// While a large request waits, small requests that could be served do not pass it, not even those
// of other shares. They get only memory that the large request does not wait for.
func TestSmallDoNotStarveLarge(t *testing.T) {
	p := newPool(t, 4*mib, 4*mib)
	var log []string
	shares := []*Share{p.NewShare(), p.NewShare(), p.NewShare()}
	first := newWish("first", mib, &log)
	shares[0].Get(&first.Request)
	large := newWish("large", 4*mib, &log)
	shares[1].Get(&large.Request)
	var others []*wish
	for i := range deliveries / 2 {
		for _, size := range []int{PageSize, large1} {
			w := newWish("other", size, nil)
			others = append(others, w)
			shares[i%3].Get(&w.Request)
		}
	}
	if _, ok := shares[2].TryGet(large1); ok {
		t.Fatal("TryGet passes the pool's queue")
	}
	if st := p.Stats(); st.InUse-st.Small != mib {
		t.Fatalf("%d bytes of the main zone are in use", st.InUse-st.Small)
	}
	if !slices.Equal(log, []string{"first"}) {
		t.Fatal(log)
	}
	first.buffer.Release()
	if !slices.Equal(log, []string{"first", "large"}) {
		t.Fatal(log)
	}
	large.buffer.Release()
	for _, w := range others {
		w.want(t, 1, nil)
		w.buffer.Release()
	}
}

// The first request waits for a contiguous block even if enough pages are free.
func TestHeadWaitsForContiguousBlock(t *testing.T) {
	p := newPool(t, 4*mib, 4*mib)
	s := p.NewShare()
	var pages []*Buffer
	for range 4 * mib / PageSize {
		b, ok := s.TryGet(PageSize)
		if !ok {
			t.Fatal("a page is missing")
		}
		pages = append(pages, b)
	}
	big := newWish("big", mib, nil)
	p.NewShare().Get(&big.Request)
	for i := 0; i < len(pages); i += 2 {
		pages[i].Release()
	}
	big.want(t, 0, nil) // 2 MiB are free, without two adjacent pages
	for i := 1; big.calls == 0; i += 2 {
		pages[i].Release()
		pages[i] = nil
	}
	big.want(t, 1, nil)
	for i := 1; i < len(pages); i += 2 {
		if pages[i] != nil {
			pages[i].Release()
		}
	}
	big.buffer.Release()
}

func TestCancel(t *testing.T) {
	p := newPool(t, 4*mib, 4*mib)
	a, b := p.NewShare(), p.NewShare()
	held, _ := a.TryGet(3 * mib)
	inPool := newWish("in the pool's queue", 2*mib, nil)
	small := newWish("small", mib, nil)
	b.Get(&inPool.Request)
	a.Get(&small.Request)
	if a.Cancel(&inPool.Request) {
		t.Fatal("another share's Cancel takes it back")
	}
	if !b.Cancel(&inPool.Request) || b.Cancel(&inPool.Request) {
		t.Fatal("Cancel of a waiting Request must succeed once")
	}
	small.want(t, 1, nil) // no other request delays it now
	if a.Cancel(&small.Request) {
		t.Fatal("Cancel after Granted")
	}
	inShare := newWish("in the share's queue", mib, nil)
	a.Get(&inShare.Request)
	if !a.Cancel(&inShare.Request) {
		t.Fatal("Cancel fails")
	}
	small.buffer.Release()
	held.Release()
	inShare.want(t, 0, nil)
	inPool.want(t, 0, nil)
	b.Get(&inPool.Request) // a cancelled Request can be used again
	inPool.want(t, 1, nil)
	inPool.buffer.Release()
}

func TestGetOfWaitingRequestPanics(t *testing.T) {
	p := newPool(t, 4*mib, 4*mib)
	s := p.NewShare()
	held, _ := s.TryGet(4 * mib)
	w := newWish("w", 1, nil)
	s.Get(&w.Request)
	mustPanic(t, func() { s.Get(&w.Request) })
	held.Release()
	w.buffer.Release()
}

func mustPanic(t *testing.T, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Fatal("no panic")
		}
	}()
	f()
}

func TestReferencesAreCounted(t *testing.T) {
	p := newPool(t, 4*mib, 0)
	b, ok := p.NewShare().TryGet(1)
	if !ok {
		t.Fatal("no memory")
	}
	b.Retain()
	b.Release()
	if p.Stats().InUse != PageSize {
		t.Fatal("released too early")
	}
	b.Release()
	if p.Stats().InUse != 0 {
		t.Fatal("not released")
	}
	mustPanic(t, b.Release)
	mustPanic(t, b.Retain)
}

func TestCloseOfShare(t *testing.T) {
	p := newPool(t, 4*mib, 3*mib)
	var log []string
	a, b := p.NewShare(), p.NewShare()
	held, _ := a.TryGet(2 * mib)
	a1 := newWish("a1", mib, &log)   // granted
	a2 := newWish("a2", 2*mib, &log) // waits for a's limit
	b1 := newWish("b1", 3*mib, &log) // is next in the main zone
	c1 := newWish("c1", mib, &log)   // could be served, but waits for b1
	a.Get(&a1.Request)
	a.Get(&a2.Request)
	b.Get(&b1.Request)
	p.NewShare().Get(&c1.Request)
	b.Close()
	b1.want(t, 1, ErrClosed)
	c1.want(t, 1, nil)
	a.Close()
	a.Close()
	a2.want(t, 1, ErrClosed)
	late := newWish("late", 1, &log)
	a.Get(&late.Request)
	late.want(t, 1, ErrClosed)
	if _, ok := a.TryGet(1); ok {
		t.Fatal("TryGet of a closed share")
	}
	if !slices.Equal(log, []string{"a1", "b1", "c1", "a2", "late"}) {
		t.Fatal(log)
	}
	held.Bytes()[0] = 1 // buffers outlive their share
	held.Release()
	a1.buffer.Release()
	c1.buffer.Release()
}

func TestCloseOfPool(t *testing.T) {
	p := newPool(t, 4*mib, 4*mib)
	s := p.NewShare()
	held, _ := s.TryGet(3 * mib)
	w1, w2 := newWish("w1", 2*mib, nil), newWish("w2", 3*mib, nil)
	s.Get(&w1.Request)
	p.NewShare().Get(&w2.Request)
	p.Close()
	p.Close()
	w1.want(t, 1, ErrClosed)
	w2.want(t, 1, ErrClosed)
	w3 := newWish("w3", 1, nil)
	p.NewShare().Get(&w3.Request)
	w3.want(t, 1, ErrClosed)
	if err := p.OnArena(func([]byte) error { return nil }); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	held.Bytes()[3*mib-1] = 1
	if p.arena == nil {
		t.Fatal("unmapped under a Buffer")
	}
	held.Release()
	if p.arena != nil {
		t.Fatal("not unmapped after the last Buffer")
	}
}

// A Granted function may release, get and cancel. A chain of such calls does not recurse.
func TestGrantedMayUseThePool(t *testing.T) {
	p := newPool(t, 4*mib, 4*mib)
	s := p.NewShare()
	held, _ := s.TryGet(4 * mib)
	const waiters = deliveries
	depth, deepest, done := 0, 0, 0
	for range waiters {
		r := &Request{Size: 4 * mib}
		r.Granted = func(r *Request, b *Buffer, err error) {
			depth++
			deepest = max(deepest, depth)
			done++
			b.Release()
			depth--
		}
		s.Get(r)
	}
	held.Release()
	if done != waiters || deepest != 1 {
		t.Fatalf("%d of %d granted, %d deep", done, waiters, deepest)
	}
}

func TestOnArena(t *testing.T) {
	p := newPool(t, 4*mib, 0)
	refused := errors.New("refused")
	if err := p.OnArena(func([]byte) error { return refused }); err != refused {
		t.Fatal(err)
	}
	if p.pinned != 0 {
		t.Fatal("a device that refused pins the arena")
	}
	calls := 0
	err := p.OnArena(func(arena []byte) error {
		calls++
		if int64(len(arena)) != ceilingOf(4*mib) {
			t.Errorf("arena of %d bytes", len(arena))
		}
		return nil
	})
	if err != nil || calls != 1 {
		t.Fatal(err, calls)
	}
}
