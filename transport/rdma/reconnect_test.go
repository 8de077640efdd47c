package rdma

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/rdmatest"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// When the connection ends, unanswered calls go out again on a new one, in their order, with their
// XIDs and new handles (RFC 8166 §4.5.5). Thresholds, credits and remote invalidation are those of
// the new connection (row V1-111 of docs/conformance.md).
func TestReconnect(t *testing.T) {
	s := newScript(t, DialConfig{Reconnect: true, RemoteInvalidation: true, redial: time.Millisecond}, private(true, 4096, 4096))
	s.ramp(3)
	sinks := [][]byte{make([]byte, 100), make([]byte, 100)}
	done := []<-chan result{s.start(getTo(100, sinks[0])), s.start(getTo(100, sinks[1]))}
	var before []wire.Header
	for range 2 {
		h, _ := s.next()
		before = append(before, h)
	}
	queued := s.start(putOf(pattern(2000)))
	if h, _ := s.next(); h.Reads.Len() != 0 { // 2000 bytes are Short at a threshold of 4096
		t.Errorf("%d read segments", h.Reads.Len())
	}
	// An answered call is not sent again.
	m := message{xid: before[0].XID, credits: 3, writes: [][]wire.Segment{used(offered(&before[0]).writes[0], 0)}, payload: success(before[0].XID, 0)}
	s.p.Send(m.bytes())
	if r := ended(t, done[0]); r.err != nil {
		t.Fatal(r.err)
	}
	s.p.Conn().Abort(nil)

	s.p = s.accept(nil) // no private data, so both thresholds are 1024
	h, _ := s.next()
	if h.XID != before[1].XID {
		t.Errorf("XID %#x first, want %#x", h.XID, before[1].XID)
	}
	o, was := offered(&h), offered(&before[1])
	if o.writes[0][0].Handle == was.writes[0][0].Handle {
		t.Error("the handle is the old one")
	}
	if n := len(s.p.Messages()); n != 1 { // V1-19: one credit again
		t.Errorf("%d calls on the new connection", n)
	}
	s.write(o.writes[0], pattern(100))
	s.reply(message{xid: h.XID, writes: [][]wire.Segment{used(o.writes[0], 100)}, payload: success(h.XID, 100)})
	if r := ended(t, done[1]); r.err != nil || !bytes.Equal(r.data, pattern(100)) {
		t.Errorf("%v", r.err)
	}
	h, payload := s.next()
	if h.Reads.Len() != 1 || len(payload) > 100 { // Chunked at a threshold of 1024
		t.Errorf("%d read segments, %d bytes of Payload", h.Reads.Len(), len(payload))
	}
	s.refuse(&h)
	ended(t, queued)
	if i, _ := s.client.Info(); i.RemoteInvalidation || i.SendLimit != 1024 {
		t.Errorf("%+v", i)
	}
}

// Without Reconnect the loss of the connection ends the calls that were sent and all later ones.
func TestLossWithoutReconnect(t *testing.T) {
	s := newScript(t, DialConfig{}, nil)
	one, two := s.start(null()), s.start(null())
	s.next()
	s.p.Conn().Abort(nil)
	for _, done := range []<-chan result{one, two, s.start(null())} {
		if r := ended(t, done); !errors.Is(r.err, rpc.ErrCallLost) {
			t.Errorf("%v", r.err)
		}
	}
	if r := ended(t, s.start(null())); !errors.Is(r.err, rpc.ErrCallLost) {
		t.Errorf("later: %v", r.err)
	}
	if _, ok := s.client.Info(); ok {
		t.Error("there is a connection")
	}
}

// A call that starts while its connection ends, after the other calls have ended and before the
// client knows that the connection is gone, ends with rpc.ErrCallLost like the others.
func TestCallWhileTheConnectionEnds(t *testing.T) {
	s := newScript(t, DialConfig{}, nil)
	s.client.mu.Lock()
	q := s.client.link.requester
	s.client.mu.Unlock()
	q.closed(errors.New("the end"))
	if r := ended(t, s.start(null())); !errors.Is(r.err, rpc.ErrCallLost) {
		t.Errorf("%v", r.err)
	}
	if _, ok := s.client.Info(); ok {
		t.Error("there is a connection")
	}
}

// A call whose memory cannot be exposed any more, because its connection ends, waits for that end. It
// and all later calls end with the reason of that end.
func TestCallThatMeetsADyingConnection(t *testing.T) {
	s := newScript(t, DialConfig{}, nil)
	end(s.p).Faults().FailRegister(0, rdmacm.ErrClosed)
	first := s.start(getTo(5000, make([]byte, 5000)))
	why := errors.New("the reason")
	s.client.link.device.Abort(why)
	for _, done := range []<-chan result{first, s.start(null())} {
		if r := ended(t, done); !errors.Is(r.err, rpc.ErrCallLost) || !errors.Is(r.err, why) {
			t.Errorf("%v", r.err)
		}
	}
}

// If the answer to a call was dropped or never sent, the client's timer ends the connection, and
// the call goes out over a new connection with the same XID. Rows A-17, L-6, V1-82 and V1-77 of
// docs/conformance.md.
func TestTimerEndsDroppedCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t, DialConfig{Reconnect: true, Timeout: 20 * time.Second, redial: time.Millisecond}, nil)
		done := s.start(null())
		h, _ := s.next()
		begin := time.Now()
		// This reply has a Read list, as replies of old servers do; the client drops it (L-6).
		s.reply(message{xid: h.XID, reads: at(4, seg(1, 4, 0)), payload: success(h.XID)})
		s.p.End()
		if waited := time.Since(begin); waited < 20*time.Second || waited > 26*time.Second {
			t.Errorf("given up after %v", waited)
		}
		s.p = s.accept(nil)
		again, _ := s.next()
		if again.XID != h.XID {
			t.Errorf("XID %#x, want %#x", again.XID, h.XID)
		}
		s.reply(message{xid: h.XID, payload: success(h.XID)})
		ended(t, done)
		// The client does not give up an idle connection, or one whose calls are answered.
		for range 10 {
			time.Sleep(15 * time.Second)
			s.ramp(8)
		}
		// A cancelled call that is never answered does not keep its credit for ever.
		x := null()
		done = s.start(x)
		s.next()
		s.client.Cancel(x, context.Canceled)
		ended(t, done)
		s.p.End()
		s.client.Close()
	})
}

// The client tries again and again to connect, with growing pauses; meanwhile calls wait, and can
// be cancelled.
func TestRedial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t, DialConfig{Reconnect: true, redial: time.Second, redialMost: 4 * time.Second}, nil)
		s.listener.Close()
		x := null()
		one, two := s.start(null()), s.start(x)
		s.next()
		s.p.Conn().Abort(nil)
		time.Sleep(20 * time.Second)
		s.client.Cancel(x, context.Canceled)
		if r := ended(t, two); r.err != context.Canceled {
			t.Errorf("%v", r.err)
		}
		var err error
		if s.listener, err = s.provider.Listen(s.listener.Addr()); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		s.p = s.accept(nil)
		if waited := time.Since(begin); waited > 4*time.Second {
			t.Errorf("connected after %v", waited)
		}
		h, _ := s.next()
		s.reply(message{xid: h.XID, payload: success(h.XID)})
		ended(t, one)
		s.client.Close()
		s.listener.Close()
	})
}

// Close ends the calls that wait, the calls that were sent, and all later calls.
func TestClientClose(t *testing.T) {
	for _, reconnect := range []bool{false, true} {
		s := newScript(t, DialConfig{Reconnect: reconnect}, nil)
		one, two := s.start(null()), s.start(null())
		s.next()
		s.client.Close()
		for _, done := range []<-chan result{one, two, s.start(null())} {
			if r := ended(t, done); !errors.Is(r.err, errClientClosed) {
				t.Errorf("%v", r.err)
			}
		}
		s.p.End()
		s.client.Close()
	}
	// Close ends an idle connection in order.
	s := newScript(t, DialConfig{}, nil)
	s.ramp(8)
	s.client.Close()
	if err := s.p.End(); err != nil {
		t.Errorf("%v", err)
	}
}

// If the connection breaks at any one work request, before or after its effect, on either side,
// every call succeeds on a later connection. A call that may not be executed twice is executed
// once.
func TestLossAtEveryWork(t *testing.T) {
	for _, side := range []bool{false, true} {
		for _, when := range []rdmatest.When{rdmatest.Before, rdmatest.After} {
			for n := range 14 {
				t.Run(fmt.Sprintf("server=%v when=%d work=%d", side, when, n), func(t *testing.T) {
					first := true
					b := newBench(t, benchConfig{provider: rdmatest.Config{Conn: func(c *rdmatest.Conn) {
						if c.Accepted() == side && first {
							first = false
							c.Faults().LoseAt(n, when)
						}
					}}})
					c := b.dial(DialConfig{Reconnect: true, redial: time.Millisecond})
					for range 3 {
						if err := put(t, c, pattern(5000)); err != nil {
							t.Error(err)
						}
						if err := get(t, c, 6001, make([]byte, 6001)); err != nil {
							t.Error(err)
						}
						if err := get(t, c, 7001, nil); err != nil {
							t.Error(err)
						}
					}
					if n := b.program.Served[2].Load(); n != 3 {
						t.Errorf("PUT was executed %d times", n)
					}
				})
			}
		}
	}
}

// If calls that were cancelled without an answer use all credits, and another call waits, the
// client ends the connection after latePatience and makes that call on a new one. The server left
// the cancelled calls unanswered, or sent answers that the client must drop (RFC 8166 §4.5). While
// no call waits, the connection lasts.
func TestCreditsOfCallsGivenUp(t *testing.T) {
	const credits = 4
	for name, before := range map[string]bool{"the call waits before": true, "the call comes behind": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScript(t, DialConfig{Reconnect: true, Credits: credits, redial: time.Millisecond}, nil)
				s.ramp(credits)
				var calls []*rpc.Exchange
				var gone []<-chan result
				for i := range credits {
					x := null()
					calls, gone = append(calls, x), append(gone, s.start(x))
					h, _ := s.next()
					s.reply(message{xid: h.XID, reads: at(4, seg(1, 4, 0)), payload: success(h.XID)}) // no reply has a Read list
					synctest.Wait()
					if n := s.client.stats.Count(faultReplyReads); n != int64(i+1) {
						t.Errorf("%d replies are dropped", n)
					}
				}
				var done <-chan result
				if before {
					done = s.start(null())
				}
				for i, x := range calls {
					s.client.Cancel(x, context.Canceled)
					if r := ended(t, gone[i]); r.err != context.Canceled {
						t.Errorf("%v", r.err)
					}
				}
				if !before {
					time.Sleep(2 * latePatience)
					if s.client.stats.Count(faultUnanswered) != 0 {
						t.Error("the connection is ended, and no call waits")
					}
					done = s.start(null())
				}
				s.p.End()
				s.p = s.accept(nil)
				h, _ := s.next()
				s.reply(message{xid: h.XID, payload: success(h.XID, 0)})
				if r := ended(t, done); r.err != nil {
					t.Error(r.err)
				}
				if n := s.client.stats.Count(faultUnanswered); n != 1 {
					t.Errorf("%d connections were ended", n)
				}
				s.client.Close()
				s.listener.Close()
			})
		})
	}
}

// If a server accepts connections and ends each before it has answered a call, the client connects
// with growing pauses, as to a server that it cannot reach. After an answer the next attempt is
// immediate.
func TestPauseBetweenConnectionsThatAreGoodForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t, DialConfig{Reconnect: true, redial: time.Second, redialMost: 4 * time.Second}, nil)
		done := s.start(null())
		for _, want := range []time.Duration{0, time.Second, 2 * time.Second, 4 * time.Second, 4 * time.Second} {
			s.next()
			begin := time.Now()
			s.p.Conn().Abort(nil)
			s.p = s.accept(nil)
			if waited := time.Since(begin); waited != want {
				t.Errorf("connected anew after %v, not %v", waited, want)
			}
		}
		h, _ := s.next()
		s.reply(message{xid: h.XID, payload: success(h.XID)})
		ended(t, done)
		done = s.start(null())
		s.next()
		begin := time.Now()
		s.p.Conn().Abort(nil)
		s.p = s.accept(nil)
		if waited := time.Since(begin); waited != 0 {
			t.Errorf("connected anew after %v, although the last connection was good for an answer", waited)
		}
		h, _ = s.next()
		s.reply(message{xid: h.XID, payload: success(h.XID)})
		ended(t, done)
		s.client.Close()
		s.listener.Close()
	})
}
