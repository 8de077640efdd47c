package rdmatest

import (
	"errors"
	"fmt"
	"sync"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
)

var endRules = []rule{
	{"AbortFlushesInOrder", both(endAbort)},
	{"AbortWithoutAReason", both(endAbortNil)},
	{"LossOfThePeerFlushesInOrder", both(endPeerLost)},
	{"PostAfterTheEnd", both(endPostAfter)},
	{"PostFromClosed", endPostFromClosed},
	{"DisconnectDeliversPostedWork", both(endDisconnect)},
	{"DisconnectFinishesReads", both(endDisconnectReads)},
	{"DisconnectIdle", both(endDisconnectIdle)},
	{"DisconnectByBoth", both(endDisconnectBoth)},
	{"DisconnectTwiceThenAbort", both(endDisconnectTwice)},
	{"AbortRacesWithPosts", both(endAbortRace)},
	{"PostsAfterDisconnectFail", both(endPostAfterDisconnect)},
}

// A roll records the order in which Done of chains is called, and the errors that Done gets.
type roll struct {
	s    *suite
	mu   sync.Mutex
	next int
	errs []error
	peer *Peer
}

// post posts a chain whose Done must be called in order, once, and before Closed.
func (r *roll) post(number int, work ...rdmacm.Work) {
	returned := 0
	r.peer.Conn().Post(&rdmacm.Chain{Work: work, Done: func(_ *rdmacm.Chain, err error, _ int) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if returned++; returned > 1 {
			r.s.Errorf("chain %d comes back %d times", number, returned)
		}
		if number != r.next {
			r.s.Errorf("chain %d comes back where %d is due", number, r.next)
		}
		r.next++
		r.errs = append(r.errs, err)
		r.peer.mu.Lock()
		defer r.peer.mu.Unlock()
		if r.peer.closed > 0 {
			r.s.Errorf("chain %d comes back after Closed", number)
		}
	}})
}

// all asserts that Done of n chains was called, and that no chain after the first failed chain
// succeeded.
func (r *roll) all(n int) {
	r.s.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next != n {
		r.s.Fatalf("%d of %d chains came back before the end", r.next, n)
	}
	failed := false
	for i, err := range r.errs {
		if failed && err == nil {
			r.s.Errorf("chain %d succeeds behind one that did not", i)
		}
		failed = failed || err != nil
	}
}

// many posts n chains on a: Sends, Reads and Writes. The returned roll records the calls of
// Done.
func (s *suite) many(a *Peer, region rdmacm.Region, n int) *roll {
	r := &roll{s: s, peer: a}
	big := make([]byte, 256<<10)
	reads := 0
	for i := range n {
		switch {
		case i%3 == 0 && i < 24:
			r.post(i, SendOf([]byte{byte(i)}))
		case i%3 == 1 && reads < a.Conn().ReadDepth():
			reads++
			r.post(i, ReadOf(At(region, 0), make([]byte, 256<<10)))
		default:
			r.post(i, WriteOf(At(region, 0), big))
		}
	}
	return r
}

func endAbort(s *suite, a, b *Peer) {
	region := b.Expose(make([]byte, 256<<10), rdmacm.RemoteRead|rdmacm.RemoteWrite)
	r := s.many(a, region, 60)
	why := errors.New("had enough")
	a.Conn().Abort(why)
	if err := a.End(); !errors.Is(err, why) {
		s.Fatalf("Closed says %v", err)
	}
	r.all(60)
	for i, err := range r.errs {
		if err != nil && (!errors.Is(err, why) || !errors.Is(err, rdmacm.ErrFlushed)) {
			s.Errorf("chain %d: %v", i, err)
		}
	}
	s.killedUnless(rdmacm.AbortLooksOrderly, b)
}

func endAbortNil(s *suite, a, b *Peer) {
	a.Conn().Abort(nil)
	a.Conn().Abort(errors.New("late"))
	if err := a.End(); !errors.Is(err, rdmacm.ErrAborted) {
		s.Fatalf("Closed says %v", err)
	}
	s.killedUnless(rdmacm.AbortLooksOrderly, b)
}

func endPeerLost(s *suite, a, b *Peer) {
	region := b.Expose(make([]byte, 256<<10), rdmacm.RemoteRead|rdmacm.RemoteWrite)
	r := s.many(a, region, 60)
	b.Conn().Abort(nil)
	s.killed(b)
	s.killedUnless(rdmacm.AbortLooksOrderly, a)
	r.all(60)
}

func endPostAfter(s *suite, a, b *Peer) {
	region := b.Expose(make([]byte, 100), rdmacm.RemoteWrite)
	a.Conn().Abort(nil)
	a.End()
	b.End()
	for _, p := range []*Peer{a, b} {
		for range 3 {
			o := p.Do(WriteOf(At(region, 0), []byte("late")), SendOf())
			if !errors.Is(o.Err, rdmacm.ErrClosed) {
				s.Fatalf("a chain posted after the end comes back with %v", o.Err)
			}
		}
		p.Promise(1)
		p.Conn().Flush()
		p.Conn().Disconnect()
	}
}

// closer is a Handler that posts a chain while its Closed runs.
type closer struct {
	peerHandler
	conn func() rdmacm.Conn
	done func(error)
}

func (c closer) Closed(err error) {
	c.conn().Post(&rdmacm.Chain{Work: []rdmacm.Work{SendOf()},
		Done: func(_ *rdmacm.Chain, err error, _ int) { c.done(err) }})
	c.peerHandler.Closed(err)
}

func endPostFromClosed(s *suite) {
	l := s.listen()
	param, answer := common(), common()
	p := newPeer(s.T, &param)
	came := make(chan error, 1)
	param.Handler = closer{peerHandler{p}, p.Conn, func(err error) { came <- err }}
	done := make(chan *Peer, 1)
	go func() { done <- AcceptPeer(s.T, l, answer) }()
	c, err := s.provider.Dial(s.Context(), l.Addr(), param.ConnParam)
	s.noError(err)
	p.begin(c)
	within(s.T, "the connection is accepted", done).Conn().Abort(nil)
	if err := within(s.T, "the chain comes back", came); !errors.Is(err, rdmacm.ErrClosed) {
		s.Fatalf("a chain posted by Closed comes back with %v", err)
	}
	p.End()
}

func endDisconnect(s *suite, a, b *Peer) {
	const n = 50
	memory := make([]byte, n*20_000)
	want := pattern(1, len(memory))
	region := b.Expose(memory, rdmacm.RemoteWrite)
	s.promise(b, a, n)
	r := &roll{s: s, peer: a}
	for i := range n {
		at := i * 20_000
		r.post(i, WriteOf(At(region, at), want[at:at+20_000]), SendOf(pattern(i, 4096)))
	}
	a.Conn().Disconnect()
	for _, p := range []*Peer{a, b} {
		if err := p.End(); err != nil {
			s.Fatalf("an orderly end is told as %v", err)
		}
	}
	r.all(n)
	for i, err := range r.errs {
		if err != nil {
			s.Fatalf("chain %d: %v", i, err)
		}
	}
	for i := range n {
		s.same(fmt.Sprintf("message %d", i), b.Receive().Bytes, pattern(i, 4096))
	}
	s.same("memory", memory, want)
}

func endDisconnectReads(s *suite, a, b *Peer) {
	src := pattern(1, 2<<20)
	region := b.Expose(src, rdmacm.RemoteRead)
	got := make([]byte, len(src))
	out := a.Post(ReadOf(At(region, 0), got))
	a.Conn().Disconnect()
	s.noError(a.End())
	s.ok(a.await(out))
	s.same("bytes read", got, src)
	s.noError(b.End())
}

func endDisconnectIdle(s *suite, a, b *Peer) {
	s.lives(a, b)
	a.Conn().Disconnect()
	s.noError(a.End())
	s.noError(b.End())
}

func endDisconnectBoth(s *suite, a, b *Peer) {
	a.Conn().Disconnect()
	b.Conn().Disconnect()
	s.noError(a.End())
	s.noError(b.End())
}

func endDisconnectTwice(s *suite, a, b *Peer) {
	a.Conn().Disconnect()
	a.Conn().Disconnect()
	a.End()
	a.Conn().Abort(errors.New("late"))
	s.noError(a.End())
	s.noError(b.End())
}

// If goroutines post while another one calls Abort, Done of every chain is called once.
func endAbortRace(s *suite, a, b *Peer) {
	const goroutines, each = 4, 200
	region := b.Expose(make([]byte, 64<<10), rdmacm.RemoteWrite)
	var wg, back sync.WaitGroup
	back.Add(goroutines * each)
	for range goroutines {
		wg.Go(func() {
			payload := make([]byte, 64<<10)
			for range each {
				a.Conn().Post(&rdmacm.Chain{
					Work: []rdmacm.Work{WriteOf(At(region, 0), payload)},
					Done: func(*rdmacm.Chain, error, int) { back.Done() },
				})
			}
		})
	}
	wg.Go(func() { a.Conn().Abort(nil) })
	wg.Wait()
	back.Wait()
	a.End()
	b.End()
}

func endPostAfterDisconnect(s *suite, a, b *Peer) {
	r := &roll{s: s, peer: a}
	r.post(0, SendOf([]byte("before")))
	a.Conn().Disconnect()
	out := a.Post(SendOf([]byte("after")))
	s.noError(a.End())
	if o := a.await(out); !errors.Is(o.Err, rdmacm.ErrClosed) {
		s.Fatalf("a chain posted after Disconnect comes back with %v", o.Err)
	}
	s.noError(b.End())
	if m := b.Messages(); len(m) != 1 || string(m[0].Bytes) != "before" {
		s.Fatalf("%d messages arrive", len(m))
	}
	r.all(1)
}
