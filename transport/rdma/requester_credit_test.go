package rdma

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/rdmatest"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// outstanding starts n calls and returns the calls that arrive. There must be exactly want of
// them: a further one would arrive before the answers.
func (s *script) outstanding(n, want int) (xids []uint32, done []<-chan result) {
	s.t.Helper()
	for range n {
		done = append(done, s.start(null()))
	}
	for range want {
		h, _ := s.next()
		xids = append(xids, h.XID)
	}
	s.mustBeIdle()
	return xids, done
}

// mustBeIdle fails the test unless every call that the client may send has arrived.
func (s *script) mustBeIdle() {
	s.t.Helper()
	s.client.mu.Lock()
	defer s.client.mu.Unlock()
	if q := s.client.link.requester; q.pumping || q.queue.First != nil && q.credits.may() {
		s.t.Error("the client may send, and does not")
	}
}

func posted(s *script) int {
	return len(s.provider.Log().Find(rdmatest.IsPost(rdmacm.OpSend, end(s.p).ID())))
}

// A new connection has one call in flight until a reply brings the grant (V1-19, V1-20). From then
// on it has no more calls in flight than granted (V1-13), nor than the client asked for (V1-15).
// The numbers are rows of docs/conformance.md.
func TestCreditsAtTheStart(t *testing.T) {
	s := newScript(t, DialConfig{Credits: 4}, nil)
	xids, done := s.outstanding(10, 1)
	if n := posted(s); n != 1 {
		t.Fatalf("%d calls on the wire", n)
	}
	s.reply(message{xid: xids[0], credits: 3, payload: success(xids[0])})
	ended(t, done[0])
	for range 3 {
		h, _ := s.next()
		if h.Credits != 4 {
			t.Errorf("asks for %d credits", h.Credits)
		}
		xids = append(xids, h.XID)
	}
	s.mustBeIdle()
	if n := posted(s); n != 4 {
		t.Fatalf("%d calls on the wire, want 4", n)
	}
	// A grant larger than the request: the client uses no more than it requested.
	s.reply(message{xid: xids[1], credits: 100, payload: success(xids[1])})
	for range 2 {
		h, _ := s.next()
		xids = append(xids, h.XID)
	}
	ended(t, done[1])
	s.mustBeIdle()
	if n := posted(s); n != 6 {
		t.Fatalf("%d calls on the wire, want 6", n)
	}
	// After a grant below the number in flight the client only waits (V1-21, P-1).
	for i := 2; i < 5; i++ {
		s.reply(message{xid: xids[i], credits: 1, payload: success(xids[i])})
		ended(t, done[i])
	}
	s.mustBeIdle()
	if n := posted(s); n != 6 {
		t.Fatalf("%d calls on the wire, want 6", n)
	}
	s.reply(message{xid: xids[5], credits: 1, payload: success(xids[5])})
	h, _ := s.next()
	s.reply(message{xid: h.XID, credits: 1<<32 - 1, payload: success(h.XID)})
	for range 3 {
		h, _ := s.next()
		s.reply(message{xid: h.XID, credits: 4, payload: success(h.XID)})
	}
	for _, d := range done[5:] {
		if r := ended(t, d); r.err != nil && r.err.Error() != "xdr: stream ends inside an item" {
			t.Error(r.err)
		}
	}
}

// After a grant of 0 the client waits while other calls are in flight. When no call is in flight,
// the grant counts as 1. Row L-5 of docs/conformance.md.
func TestGrantOfZero(t *testing.T) {
	s := newScript(t, DialConfig{}, nil)
	s.ramp(2)
	before := posted(s)
	xids, _ := s.outstanding(4, 2)
	m := message{xid: xids[0], payload: success(xids[0])}.bytes()
	wire.Prefix{XID: xids[0], Version: 1, Credits: 0}.Put(m)
	s.p.Send(m)
	s.ping()
	if n := posted(s); n != before+2 {
		t.Fatalf("%d calls on the wire after a grant of 0 with one in flight", n-before)
	}
	m = message{xid: xids[1], payload: success(xids[1])}.bytes()
	wire.Prefix{XID: xids[1], Version: 1, Credits: 0}.Put(m)
	s.p.Send(m)
	h, _ := s.next()
	s.mustBeIdle()
	s.reply(message{xid: h.XID, payload: success(h.XID)})
	h, _ = s.next()
	s.reply(message{xid: h.XID, payload: success(h.XID)})
}

// ping makes sure that the client has processed all messages so far. It sends a last message that
// answers no call, and waits until the client has processed it.
func (s *script) ping() {
	s.t.Helper()
	s.pings++
	m := words(s.pings, 1, 1, uint32(wire.ProcDone))
	s.p.Send(m)
	client, seen := end(s.p).ID(), false
	if _, err := s.provider.Log().Wait(s.t.Context(), func(e rdmatest.Event) bool {
		seen = seen || rdmatest.Is(rdmatest.KindReceived, client)(e) && bytes.Equal(e.Bytes, m)
		return seen && rdmatest.Is(rdmatest.KindServed, client)(e)
	}); err != nil {
		s.t.Fatal(err)
	}
}

// An RDMA_ERROR frees its call's credit and carries a grant. A grant of 0 in it changes nothing.
// Row A-5 of docs/conformance.md.
func TestErrorsCarryGrants(t *testing.T) {
	s := newScript(t, DialConfig{}, nil)
	xids, done := s.outstanding(5, 1)
	s.p.Send(words(xids[0], 1, 3, uint32(wire.ProcError), uint32(wire.ErrChunk)))
	if r := ended(t, done[0]); r.err == nil {
		t.Error("no error")
	}
	for range 3 {
		h, _ := s.next()
		xids = append(xids, h.XID)
	}
	s.mustBeIdle()
	s.p.Send(words(xids[1], 1, 0, uint32(wire.ProcError), uint32(wire.ErrChunk)))
	ended(t, done[1])
	h, _ := s.next() // three calls are in flight again
	s.mustBeIdle()
	for _, xid := range append(xids[2:], h.XID) {
		s.reply(message{xid: xid, payload: success(xid)})
	}
}

// The requester promises a receive for each answer before the call goes out, as a chain or as a
// Send that the device copies (V1-17). An idle requester promises only the receives that stray
// messages need (V1-18). The numbers are rows of docs/conformance.md.
func TestReceivesForAnswers(t *testing.T) {
	for _, short := range []bool{false, true} {
		t.Run(fmt.Sprintf("ShortSends=%v", short), func(t *testing.T) { receivesForAnswers(t, short) })
	}
}

func receivesForAnswers(t *testing.T, short bool) {
	s := newScriptOn(t, rdmatest.Config{ShortSends: short}, DialConfig{}, nil)
	if n := end(s.p).Promised(); n != spareReceives {
		t.Errorf("%d receives at the start", n)
	}
	s.ramp(20)
	xids, _ := s.outstanding(30, 20)
	if n := end(s.p).Promised(); n != spareReceives+20 {
		t.Errorf("%d receives for 20 calls", n)
	}
	for _, xid := range xids {
		s.reply(message{xid: xid, credits: 20, payload: success(xid)})
	}
	for range 10 {
		h, _ := s.next()
		s.reply(message{xid: h.XID, credits: 20, payload: success(h.XID)})
	}
	s.ping()
	if n := end(s.p).Promised(); n != spareReceives {
		t.Errorf("%d receives at the end", n)
	}
	// The same for calls with chunks, of each kind.
	for _, x := range []*rpc.Exchange{getTo(5000, make([]byte, 5000)), getTo(5000), putOf(pattern(5000))} {
		s.start(x)
		h, _ := s.next()
		if n := end(s.p).Promised(); n != spareReceives+1 {
			t.Errorf("%d receives for a call with chunks", n)
		}
		s.refuse(&h)
	}
	client, open := end(s.p).ID(), 0
	for _, e := range s.provider.Log().Events() {
		switch {
		case rdmatest.Is(rdmatest.KindProvide, client)(e):
			open += e.Count
		case rdmatest.IsPost(rdmacm.OpSend, client)(e):
			if open--; open < spareReceives {
				t.Errorf("call %#x is posted before the receive for its answer", e.Bytes[:4])
			}
		}
	}
}

// A cancelled call keeps its credit until its answer comes, because the responder may still work
// on it (RFC 8166 §3.3.1); the late answer is dropped. A call that never went out costs nothing.
func TestCancelledCallsKeepTheirCredit(t *testing.T) {
	s := newScript(t, DialConfig{Credits: 2}, nil)
	s.ramp(2)
	sent := posted(s)
	first, second, third := null(), null(), null()
	one, other, two, three := s.start(first), s.start(null()), s.start(second), s.start(third)
	h, _ := s.next()
	h2, _ := s.next()
	s.client.Cancel(second, rpc.ErrCallLost)
	if r := ended(t, two); r.err != rpc.ErrCallLost {
		t.Errorf("queued: %v", r.err)
	}
	s.client.Cancel(first, rpc.ErrCallLost)
	if r := ended(t, one); r.err != rpc.ErrCallLost {
		t.Errorf("sent: %v", r.err)
	}
	s.client.Cancel(first, rpc.ErrCallLost) // the second time has no effect
	s.ping()
	if n := posted(s) - sent; n != 2 {
		t.Errorf("%d calls on the wire", n)
	}
	s.reply(message{xid: h.XID, credits: 2, payload: success(h.XID)})
	h, _ = s.next()
	s.reply(message{xid: h2.XID, credits: 2, payload: success(h2.XID)})
	s.reply(message{xid: h.XID, credits: 2, payload: success(h.XID)})
	ended(t, other)
	ended(t, three)
}

// Calls go out in the order of Start.
func TestCallsGoOutInOrder(t *testing.T) {
	s := newScript(t, DialConfig{}, nil)
	var want []uint32
	for range 50 {
		x := null()
		s.start(x)
		s.client.mu.Lock()
		want = append(want, x.XID)
		s.client.mu.Unlock()
	}
	for i := range want {
		h, payload := s.next()
		if h.XID != want[i] {
			t.Fatalf("call %d has XID %#x, want %#x", i, h.XID, want[i])
		}
		// The RPC message follows the header at once, its XID first (V1-26, V1-70, V1-71).
		if h.Version != 1 || len(payload) != 40 || payload[0] != byte(h.XID>>24) || payload[3] != byte(h.XID) {
			t.Fatalf("version %d, % x", h.Version, payload)
		}
		s.reply(message{xid: h.XID, credits: uint32(i%7 + 1), payload: success(h.XID)})
	}
}
