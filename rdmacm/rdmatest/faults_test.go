package rdmatest

import (
	"errors"
	"slices"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
)

// connected returns a pair of peers on a provider of its own, and the faults of the dialing end.
func connected(t *testing.T, cfg Config, param PeerParam) (s *suite, a, b *Peer, f *Faults) {
	t.Helper()
	p := NewConfig(cfg)
	s = &suite{T: t, provider: p, Options: Options{Listen: anywhere}}
	a, b = s.pair(param, param)
	return s, a, b, a.Conn().(*Conn).Faults()
}

func TestLoseAt(t *testing.T) {
	for _, when := range []When{Before, After} {
		// Work requests 0 and 1 succeed, and the fault strikes number 2. The test divides the
		// four requests into two chains in each possible way.
		for split := range 4 {
			s, a, b, f := connected(t, Config{}, common())
			memory := make([]byte, 4)
			region := b.Expose(memory, rdmacm.RemoteWrite)
			f.LoseAt(2, when)
			var work []rdmacm.Work
			for i := range 4 {
				work = append(work, WriteOf(At(region, i), []byte{1}))
			}
			first, second := a.Post(work[:split]...), a.Post(work[split:]...)
			o1, o2 := a.await(first), a.await(second)
			// The test may post the second chain after the fault has ended the connection.
			if (split <= 2) != (o1.Err == nil) || !errors.Is(o2.Err, rdmacm.ErrFlushed) && !errors.Is(o2.Err, rdmacm.ErrClosed) {
				t.Errorf("split %d: %v and %v", split, o1.Err, o2.Err)
			}
			want := []byte{1, 1, 0, 0}
			if when == After {
				want[2] = 1
			}
			if a, b := a.End(), b.End(); !errors.Is(a, ErrLost) || !errors.Is(b, ErrLost) {
				t.Errorf("Closed says %v and %v", a, b)
			}
			s.same("memory", memory, want)
		}
	}
}

func TestLoseAfterASendDeliversIt(t *testing.T) {
	s, a, b, f := connected(t, Config{}, common())
	f.LoseAt(0, After)
	if err := a.Send([]byte("last words")); !errors.Is(err, rdmacm.ErrFlushed) {
		t.Fatal(err)
	}
	s.same("message", b.Receive().Bytes, []byte("last words"))
}

func TestFailWork(t *testing.T) {
	s, a, b, f := connected(t, Config{}, common())
	memory := make([]byte, 3)
	region := b.Expose(memory, rdmacm.RemoteWrite)
	f.FailWork(1, nil)
	o := a.Do(WriteOf(At(region, 0), []byte{1}), WriteOf(At(region, 1), []byte{1}), WriteOf(At(region, 2), []byte{1}))
	if !errors.Is(o.Err, ErrInjected) || o.Failed != 1 {
		t.Fatal(o)
	}
	s.killed(a, b)
	s.same("memory", memory, []byte{1, 0, 0})
}

func TestFailPostLeavesTheConnection(t *testing.T) {
	s, a, b, f := connected(t, Config{}, common())
	f.FailPost(1, nil)
	var outs []<-chan Outcome
	for i := range 3 {
		outs = append(outs, a.Post(SendOf([]byte{byte(i)})))
	}
	for i, out := range outs {
		o := a.await(out)
		if i == 1 && (o.Err != ErrInjected || o.Failed != 0) || i != 1 && o.Err != nil {
			t.Fatalf("chain %d: %+v", i, o)
		}
	}
	s.same("message", b.Receive().Bytes, []byte{0})
	s.same("message", b.Receive().Bytes, []byte{2})
	if chains, works := f.Posted(); chains != 3 || works != 3 {
		t.Fatalf("%d chains, %d work requests posted", chains, works)
	}
	s.lives(a, b)
}

func TestFailRegister(t *testing.T) {
	s, a, b, _ := connected(t, Config{}, common())
	f := b.Conn().(*Conn).Faults()
	f.FailRegister(1, nil)
	b.Expose(make([]byte, 1), rdmacm.RemoteRead)
	if _, err := b.Conn().Register(make([]byte, 1), rdmacm.RemoteRead); err != ErrInjected {
		t.Fatal(err)
	}
	b.Expose(make([]byte, 1), rdmacm.RemoteRead)
	s.lives(a, b)
}

// If Deregister fails, the peer keeps its access until the connection ends (conformance row
// V1-92).
func TestFailDeregisterLeavesTheMemoryExposed(t *testing.T) {
	s, a, b, _ := connected(t, Config{}, common())
	b.Conn().(*Conn).Faults().FailDeregister(0, nil)
	memory := make([]byte, 4)
	region := b.Expose(memory, rdmacm.RemoteWrite)
	if err := region.Deregister(); err != ErrInjected {
		t.Fatal(err)
	}
	s.noError(a.Write(At(region, 0), []byte("late")))
	s.same("memory", memory, []byte("late"))
	if _, regions := b.Conn().(*Conn).Held(); regions != 1 {
		t.Fatalf("%d regions exposed", regions)
	}
	s.noError(region.Deregister())
	a.Post(WriteOf(At(region, 0), []byte("more")))
	s.killed(a, b)
	s.same("memory", memory, []byte("late"))
}

func TestDelayDone(t *testing.T) {
	s, a, b, f := connected(t, Config{}, common())
	release := f.DelayDone(1)
	var outs []<-chan Outcome
	for i := range 3 {
		outs = append(outs, a.Post(SendOf([]byte{byte(i)})))
	}
	s.ok(a.await(outs[0]))
	for i := range 3 {
		s.same("message", b.Receive().Bytes, []byte{byte(i)}) // carried out all the same
	}
	// The other side's messages are not delayed. When one arrives, Done of the chains that were
	// carried out long before was not called yet.
	s.noError(b.Send(nil))
	a.Receive()
	select {
	case <-outs[1]:
		t.Fatal("the delayed chain is back")
	case <-outs[2]:
		t.Fatal("the chain behind is back")
	default:
	}
	release()
	s.ok(a.await(outs[1]))
	s.ok(a.await(outs[2]))
}

func TestDelayedChainIsFlushedAtTheEnd(t *testing.T) {
	s, a, b, f := connected(t, Config{}, common())
	f.DelayDone(0)
	out := a.Post(SendOf(nil))
	b.Receive()
	f.Lose()
	if o := a.await(out); !errors.Is(o.Err, rdmacm.ErrFlushed) {
		t.Fatal(o)
	}
	s.killed(a, b)
}

// Work posted after a Read may overtake it. So an upper layer that must not answer before the
// data is there has to wait for Done (conformance row V1-43).
func TestHoldReads(t *testing.T) {
	s, a, b, f := connected(t, Config{}, common())
	src := []byte("before")
	region := b.Expose(src, rdmacm.RemoteRead)
	release := f.HoldReads()
	got := make([]byte, len(src))
	read := a.Post(ReadOf(At(region, 0), got))
	mixed := a.Post(ReadOf(At(region, 0), make([]byte, 1)), SendOf([]byte("hasty")))
	s.same("message", b.Receive().Bytes, []byte("hasty"))
	select {
	case <-read:
		t.Fatal("the Read is back")
	case <-mixed:
		t.Fatal("the chain with a Read is back")
	default:
	}
	copy(src, "behind")
	release()
	release()
	s.ok(a.await(read))
	s.ok(a.await(mixed))
	s.same("bytes read", got, []byte("behind"))
	log := s.provider.(*Provider).Log()
	log.Order(t, IsPost(rdmacm.OpRead, 0), Is(KindReceived, 0), func(e Event) bool {
		return e.Kind == KindCarried && e.Op == rdmacm.OpRead
	}, Is(KindDone, 0))
}

func TestHeldReadsComeBackAtTheEnd(t *testing.T) {
	s, a, b, f := connected(t, Config{}, common())
	f.HoldReads()
	region := b.Expose(make([]byte, 1), rdmacm.RemoteRead)
	read := a.Post(ReadOf(At(region, 0), make([]byte, 1)))
	b.Conn().Abort(nil)
	if o := a.await(read); !errors.Is(o.Err, rdmacm.ErrFlushed) {
		t.Fatal(o)
	}
	s.killed(a, b)
}

func TestReorderWrites(t *testing.T) {
	s, a, b, f := connected(t, Config{}, common())
	f.ReorderWrites()
	memory := make([]byte, 6)
	region := b.Expose(memory, rdmacm.RemoteWrite)
	want := []byte("abcdef")
	var work []rdmacm.Work
	for i := range want {
		work = append(work, WriteOf(At(region, i), want[i:i+1]))
	}
	s.ok(a.Do(append(work, SendOf([]byte("written")))...))
	b.Receive()
	s.same("memory", memory, want)
	var order []int
	for _, e := range b.Seen() {
		order = append(order, e.Work)
	}
	if !slices.Equal(order, []int{5, 4, 3, 2, 1, 0, 6}) {
		t.Fatalf("carried out in the order %v", order)
	}
	// Without a Send, the device carries out the reordered Writes as well.
	s.ok(a.Do(WriteOf(At(region, 0), []byte("x")), WriteOf(At(region, 0), []byte("y"))))
	s.same("memory", memory[:1], []byte("x"))
}

// If a reordered Write fails, the Send after it fails.
func TestReorderedWriteThatFails(t *testing.T) {
	s, a, b, f := connected(t, Config{}, common())
	f.ReorderWrites()
	region := b.Expose(make([]byte, 1), rdmacm.RemoteWrite)
	o := a.Do(WriteOf(At(region, 1), []byte{1}), WriteOf(At(region, 0), []byte{1}), SendOf([]byte("written")))
	if !errors.Is(o.Err, rdmacm.ErrNotExposed) || o.Failed != 0 {
		t.Fatal(o)
	}
	s.killed(a, b)
	if len(b.Messages()) != 0 {
		t.Fatal("the Send is received")
	}
}
