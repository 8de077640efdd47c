package verbs_test

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/rdmatest"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/device"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/fakedevice"
)

// pair connects two peers over d.
func pair(t *testing.T, d *fakedevice.Device) (a, b *rdmatest.Peer) {
	return pairOf(t, open(t, d, nil))
}

func listen(t *testing.T, p rdmacm.Provider) rdmacm.Listener {
	t.Helper()
	l, err := p.Listen(netip.MustParseAddrPort("127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func peerParam() rdmatest.PeerParam {
	return rdmatest.PeerParam{ConnParam: rdmacm.ConnParam{
		Receives: 64, MaxReceives: 512, ReceiveSize: 4096, InboundReads: 8, OutboundReads: 8,
	}}
}

func pairOf(t *testing.T, p rdmacm.Provider) (a, b *rdmatest.Peer) {
	t.Helper()
	l := listen(t, p)
	accepted := make(chan *rdmatest.Peer)
	go func() { accepted <- rdmatest.AcceptPeer(t, l, peerParam()) }()
	a = rdmatest.DialPeer(t, p, l.Addr(), peerParam())
	return a, <-accepted
}

// exposed returns memory of p that its peer may write to.
func exposed(p *rdmatest.Peer, n int) (rdmacm.Remote, []byte) {
	memory := make([]byte, n)
	return rdmatest.At(p.Expose(memory, rdmacm.RemoteWrite), 0), memory
}

// A chain is sent although short Sends occupy all staging blocks, and none of them had asked
// for a completion when the connection's goroutine went to sleep.
func TestChainBehindShortSends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t, fakedevice.New(false))
		synctest.Wait()
		n := 0
		for n < 60 && a.Conn().SendShort([][]byte{{byte(n)}}, 0) {
			n++
		}
		if err := a.Send([]byte("a chain")); err != nil {
			t.Fatal(err)
		}
		for range n + 1 {
			b.Receive()
		}
	})
}

// If the device reports a Write as done before it flushes the RDMA Read posted before it, Done
// of the Write's chain gets ErrFlushed too.
func TestWorkBehindAReadThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := fakedevice.New(true)
		d.StopReads()
		a, b := pair(t, d)
		region := b.Expose(make([]byte, 8), rdmacm.RemoteRead|rdmacm.RemoteWrite)
		read := a.Post(rdmatest.ReadOf(rdmatest.At(region, 0), make([]byte, 8)))
		write := a.Post(rdmatest.WriteOf(rdmatest.At(region, 0), []byte("written")))
		synctest.Wait() // the device has done all that it will do
		b.Conn().Abort(nil)
		a.End()
		b.End()
		for name, out := range map[string]<-chan rdmatest.Outcome{"Read": read, "Write": write} {
			if o := <-out; !errors.Is(o.Err, rdmacm.ErrFlushed) {
				t.Errorf("the %s comes back with %v, want %v", name, o.Err, rdmacm.ErrFlushed)
			}
		}
	})
}

// siw may miss the first message of a connection that it accepts, until more bytes arrive. The
// accepting side makes the peer send more bytes.
func TestFirstMessageOverSIW(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := fakedevice.New(true)
		d.Attributes.SIW = true
		a, b := pair(t, d)
		a.Post(rdmatest.SendOf([]byte("first")))
		time.Sleep(10 * time.Second) // long enough for the side that accepts
		synctest.Wait()
		if m := b.Messages(); len(m) != 1 || string(m[0].Bytes) != "first" {
			t.Errorf("%d messages arrived", len(m))
		}
		a.Conn().Abort(nil)
		b.Conn().Abort(nil)
		a.End()
		b.End()
	})
}

// If siw cannot send a request because this side has ended the connection, Done of the request's
// chain gets the reason of the end, as for requests behind it.
func TestAbortOverSIW(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := fakedevice.New(true)
		d.Attributes.SIW = true
		a, b := pair(t, d)
		region := b.Expose(make([]byte, 8), rdmacm.RemoteRead)
		synctest.Wait()
		d.StopReads()
		var reads []<-chan rdmatest.Outcome
		for range 2 {
			reads = append(reads, a.Post(rdmatest.ReadOf(rdmatest.At(region, 0), make([]byte, 8))))
		}
		synctest.Wait()
		why := errors.New("had enough")
		a.Conn().Abort(why)
		if err := a.End(); !errors.Is(err, why) {
			t.Errorf("Closed says %v", err)
		}
		b.End()
		for i, read := range reads {
			if o := <-read; !errors.Is(o.Err, rdmacm.ErrFlushed) || !errors.Is(o.Err, why) {
				t.Errorf("Read %d comes back with %v", i, o.Err)
			}
		}
	})
}

// On siw, no request with much data is unsignaled, because siw would send its memory again after the
// request is done. The device refuses such a request.
func TestNoMemoryIsSentLaterBySIW(t *testing.T) {
	d := fakedevice.New(true)
	d.Attributes.SIW = true
	a, b := pair(t, d)
	region := b.Expose(make([]byte, 64<<10), rdmacm.RemoteWrite)
	data := bytes.Repeat([]byte("x"), 64<<10)
	if o := a.Do(rdmatest.WriteOf(rdmatest.At(region, 0), data), rdmatest.SendOf()); o.Err != nil {
		t.Error(o.Err)
	}
	b.Receive()
	a.Conn().Abort(nil)
	b.Conn().Abort(nil)
	a.End()
	b.End()
}

// If a side has no memory for its queue pair, neither side sets up a connection, and every
// object is freed.
func TestNoMemoryAtCreate(t *testing.T) {
	for _, failing := range []int32{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			d := fakedevice.New(false)
			var sides atomic.Int32
			d.FailCreate = func(caps device.Caps) error {
				if sides.Add(1) == failing {
					return syscall.ENOMEM
				}
				return nil
			}
			dialAndFail(t, open(t, d, nil))
		})
	}
}

// If the device refuses to register the buffers for messages, the set-up fails and every object
// is freed.
func TestNoMemoryForMessages(t *testing.T) {
	for _, failing := range []int32{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			d := fakedevice.New(false)
			var calls atomic.Int32
			d.FailRegister = func(int, int) error {
				if calls.Add(1) == failing {
					return syscall.ENOMEM
				}
				return nil
			}
			dialAndFail(t, open(t, d, nil))
		})
	}
}

type handler struct{}

func (handler) Received(r *rdmacm.Recv) { r.Release() }
func (handler) Closed(error)            {}

func dialAndFail(t *testing.T, p rdmacm.Provider) {
	l := listen(t, p)
	param := peerParam().ConnParam
	param.Handler = handler{}
	go func() {
		if r, err := l.Accept(); err == nil {
			if _, err := r.Accept(param); !errors.Is(err, syscall.ENOMEM) {
				t.Errorf("Accept returns %v, want ENOMEM", err)
			}
		}
	}()
	if _, err := p.Dial(context.Background(), l.Addr(), param); err == nil {
		t.Error("Dial returns a connection")
	}
	l.Close()
	synctest.Wait()
}

// If the device refuses to register the staging blocks or a long piece, Done of the chain gets
// the error, and the connection ends.
func TestNoMemoryForWork(t *testing.T) {
	for name, length := range map[string]int{"staging": 100, "piece": 10000} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := fakedevice.New(false)
				var full atomic.Bool
				d.FailRegister = func(int, int) error {
					if full.Load() {
						return syscall.ENOMEM
					}
					return nil
				}
				a, b := pair(t, d)
				to, _ := exposed(b, 3*length)
				full.Store(true)
				out := a.Do(rdmatest.WriteOf(to, make([]byte, length)), rdmatest.WriteOf(to, make([]byte, 2*length)))
				if !errors.Is(out.Err, syscall.ENOMEM) || !errors.Is(out.Err, rdmacm.ErrFlushed) {
					t.Errorf("the chain comes back with %v", out.Err)
				}
				if err := a.End(); !errors.Is(err, syscall.ENOMEM) {
					t.Errorf("the connection ends with %v", err)
				}
				b.End()
			})
		})
	}
}

// While the device registers or deregisters the memory of a long piece, other goroutines can
// call the connection's methods and post.
func TestLongPieceKeepsNoCallWaiting(t *testing.T) {
	const length = 10000
	d := fakedevice.New(true)
	var conn rdmacm.Conn
	var to rdmacm.Remote
	var calls atomic.Int32
	others := func(n int) error {
		if n != length || conn == nil {
			return nil
		}
		calls.Add(1)
		done := make(chan struct{})
		go func() {
			defer close(done)
			conn.Progress()
			conn.Post(&rdmacm.Chain{
				Work: []rdmacm.Work{rdmatest.WriteOf(to, make([]byte, 10))}, Done: func(*rdmacm.Chain, error, int) {},
			})
		}()
		select {
		case <-done:
		case <-time.After(30 * time.Second):
			t.Error("calls of the connection wait for the device")
		}
		return nil
	}
	d.FailRegister = func(n, _ int) error { return others(n) }
	d.Deregistered = func(n int) { others(n) }
	a, b := pair(t, d)
	to, _ = exposed(b, 2*length)
	conn = a.Conn()
	if err := a.Write(to, make([]byte, length)); err != nil {
		t.Fatal(err)
	}
	a.Conn().Disconnect()
	a.End()
	b.End()
	if n := calls.Load(); n != 2 {
		t.Errorf("memory was registered and forgotten %d times, want 2", n)
	}
}

// If the device refuses a piece, the connection deregisters the earlier pieces of the same
// work.
func TestPieceIsRefusedInTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := fakedevice.New(false)
		d.FailRegister = func(length, _ int) error {
			if length == 5001 {
				return syscall.ENOMEM
			}
			return nil
		}
		a, b := pair(t, d)
		to, _ := exposed(b, 20000)
		if out := a.Do(rdmatest.WriteOf(to, make([]byte, 5000), make([]byte, 100), make([]byte, 5001))); !errors.Is(out.Err, syscall.ENOMEM) {
			t.Errorf("the chain comes back with %v", out.Err)
		}
		a.End()
		b.End()
	})
}

// If the device refuses to register a chunk of the arena, payload in the chunk is transferred
// in another way.
func TestChunkIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arena := make([]byte, 1<<20)
		d := fakedevice.New(false)
		d.FailRegister = func(length, _ int) error {
			if length == len(arena) {
				return syscall.ENOMEM
			}
			return nil
		}
		p, err := verbs.New(verbs.Config{Library: d, Arena: func() []byte { return arena }})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		a, b := pairOf(t, p)
		for i := range arena {
			arena[i] = byte(i / 3)
		}
		to, memory := exposed(a, 20000)
		if err := b.Write(to, arena[:20000]); err != nil || string(memory) != string(arena[:20000]) {
			t.Errorf("a Write returns %v, or other bytes arrive", err)
		}
	})
}

// If the device refuses a work, Done of its chain gets an error, even if the device could carry
// out work posted after it.
func TestWorkThatTheDeviceRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := fakedevice.New(false)
		var calls, armed atomic.Int32
		d.Take = func(works int) int {
			if armed.Load() == 0 || calls.Add(1) > 1 {
				return works
			}
			return works / 2
		}
		a, b := pair(t, d)
		to, _ := exposed(b, 64)
		armed.Store(1)
		var chain []rdmacm.Work
		for range 8 {
			chain = append(chain, rdmatest.WriteOf(to, make([]byte, 64)))
		}
		first, second := a.Post(chain...), a.Post(chain...)
		if out := <-first; !errors.Is(out.Err, syscall.ENOMEM) {
			t.Errorf("the chain of which a part is refused comes back with %v", out.Err)
		}
		if out := <-second; out.Err == nil {
			t.Error("a chain behind it is carried out")
		}
		a.End()
		b.End()
	})
}

// Work beyond the size of the send queue waits for room, and Done is called in the order of
// Post.
func TestMoreWorkThanTheQueueTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := fakedevice.New(true)
		a, b := pair(t, d)
		to, memory := exposed(b, 6000)
		d.Hold(true)
		var outcomes []<-chan rdmatest.Outcome
		for i := range 600 {
			local := make([]byte, 6000-i%2*5000)
			local[0] = byte(i)
			outcomes = append(outcomes, a.Post(rdmatest.WriteOf(to, local)))
		}
		synctest.Wait()
		d.Hold(false)
		for i, out := range outcomes {
			if o := <-out; o.Err != nil {
				t.Fatalf("chain %d: %v", i, o.Err)
			}
		}
		if memory[0] != 599%256 {
			t.Error("the last Write is not the last one")
		}
	})
}

// A chain may have more work than the send queue has room, and more copied pieces than there are
// staging blocks.
func TestChainIsLongerThanTheQueues(t *testing.T) {
	const most = 300
	for name, length := range map[string]int{"queue": 0, "blocks": 100} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := pair(t, fakedevice.New(false))
				to, _ := exposed(b, 128)
				var chain []rdmacm.Work
				for range most {
					chain = append(chain, rdmatest.WriteOf(to, make([]byte, length)))
				}
				if out := a.Do(chain...); out.Err != nil {
					t.Errorf("the chain comes back with %v", out.Err)
				}
				leave(a, b)
			})
		})
	}
}
