package rdma

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/clientaddr"
	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// A client whose calls occupy too much memory is permitted few more calls, but nothing that it was told before is taken
// back, and its calls in parts go on. Afterwards it is permitted as many as before.
func TestFullClientOfVersion2(t *testing.T) {
	const credits, ceiling = 60, 4 << 20
	b := newBench(t, benchConfig{pool: mem.Config{Ceiling: ceiling}, server: Config{Version2: true, Credits: credits}})
	p := b.peer2()
	p.open()
	xid := uint32(0)
	null := func() {
		t.Helper()
		xid++
		before := p.permits
		p.send(call2(xid, rpctest.NULL))
		q, m := p.next()
		for q.Type == wire.TypeGrant { // the call before has ended after its answer had come
			q, m = p.next()
		}
		if q.XID != xid || q.Type != wire.TypeReplyInline {
			t.Fatalf("NULL is answered by % x", m)
		}
		if int32(p.permits-before) < 0 {
			t.Fatalf("the limit falls from %d to %d", before, p.permits)
		}
	}
	for p.permits-p.sent < credits {
		null()
	}
	others := b.pool.OpenShare(clientaddr.Of(p.p.Conn().Local().Addr()), nil)
	defer others.Close()
	var kept mem.Ledger
	kept.Open(others)
	kept.Add(ceiling)
	for p.permits-p.sent > mem.LeastCalls {
		null()
	}
	for range 3 {
		null()
	}
	if n := p.permits - p.sent; n != mem.LeastCalls {
		t.Errorf("%d messages are permitted", n)
	}
	call := echo(0x777, 9000)
	for _, m := range inParts(0x777, call, 1000) {
		for p.sent == p.permits {
			if q, m := p.next(); q.Type != wire.TypeGrant {
				t.Fatalf("the server sends % x", m[:min(len(m), 40)])
			}
		}
		p.send(m)
	}
	stream, _ := p.whole(0x777)
	results(t, 0x777, stream)
	kept.Add(-ceiling)
	null()
	if n := p.permits - p.sent; n != credits {
		t.Errorf("%d messages are permitted", n)
	}
}

// A peer that does not finish an RPC message in parts loses its connection, and the parts are forgotten.
func TestPartsDoNotWaitForever(t *testing.T) {
	defer setPatience(time.Millisecond)()
	b := newBench(t, benchConfig{server: Config{Version2: true}})
	p := b.peer2()
	p.open()
	call := echo(5, 1000)
	p.send(part(wire.TypeCallMiddle, 5, len(call)-400, call[:400]))
	wantEnd(t, p.p, "the client keeps its connection")
	await.Until(t, "the connection is gone", func() bool { return b.server.Stats().Connections.Load() == 0 })
	if n := b.server.Stats().Timeouts(); n != 1 {
		t.Errorf("%d connections have stalled", n)
	}
	if n := b.pool.Stats().Charged; n != 0 {
		t.Errorf("%d bytes are charged", n)
	}
}

// The time for an RPC message in parts does not run while this side keeps back the permission for the next part. It
// runs if the peer itself prevents the grant.
func TestPartsWaitForPermission(t *testing.T) {
	defer setPatience(time.Hour)()
	long := func() *modelSide {
		s := newModel(t, 4, 4)[1]
		s.v.run.stream, s.v.received, s.v.runBegan = new(stream), s.v.said, time.Now().Add(-2*time.Hour)
		return s
	}
	s := long()
	s.v.may = s.v.said
	s.v.lookAtRun()
	if time.Since(s.v.runBegan) > time.Hour {
		t.Error("the time runs")
	}
	s.v.closed()

	s = long()
	s.v.may, s.v.sent = s.v.said+1, s.v.limit+1
	var why error
	s.ends = func(err error) { why = err }
	s.v.lookAtRun()
	if why != errNoParts {
		t.Errorf("the connection ends with %v", why)
	}
}

// The XID of an RPC message that failed can be used again after a while, although the last part never came.
func TestFailedXIDIsForgotten(t *testing.T) {
	defer setPatience(time.Millisecond)()
	b := newBench(t, benchConfig{server: Config{Version2: true}})
	p := b.peer2()
	p.open()
	p.send(part(wire.TypeCallMiddle, 5, 0, make([]byte, 40)))
	p.wantError2(5, wire.Version2, wire.Err2InvalCont)
	v := b.connection().framing.(*version2)
	await.Until(t, "the XID is forgotten", func() bool {
		p.alive() // the server has read the message, and so v.sequence is at rest
		return !v.sequence.Failing()
	})
	p.send(call2(5, rpctest.NULL))
	if q, m := p.next(); q.XID != 5 || q.Type != wire.TypeReplyInline {
		t.Errorf("NULL is answered by % x", m)
	}
}

// A call that the server never permits has a time-out, although no other call is under way.
func TestQueuedCallsTimeOut(t *testing.T) {
	s, _ := newScript2(t, DialConfig{Timeout: 4 * time.Millisecond}, accepts2(1)) // the proposal alone
	if r := ended(t, s.start(null())); !errors.Is(r.err, rpc.ErrCallLost) {
		t.Errorf("the call ends with %v", r.err)
	}
	if n := s.client.stats.Timeouts(); n != 1 {
		t.Errorf("%d connections have timed out", n)
	}
}

// A call that waited on a connection that ended has its whole time on the next one.
func TestQueuedCallBeginsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newScript2(t, DialConfig{Timeout: 20 * time.Second, Reconnect: true, redial: time.Millisecond}, accepts2(1))
		done := s.start(null())
		time.Sleep(19 * time.Second)
		s.p.Conn().Abort(nil)
		s.p = s.accept(nil)
		s.p.Receive()
		s.sendRaw(accepts2(1))
		time.Sleep(15 * time.Second)
		s.sendRaw(permits(message2(wire.TypeGrant, 0, nil, nil), 4))
		q, _ := s.next2()
		s.sendRaw(permits(message2(wire.TypeReplyInline, q.XID, nil, opaqueReply(q.XID, pattern(4))), 5))
		if r := ended(t, done); r.err != nil {
			t.Error(r.err)
		}
		s.client.Close()
	})
}

// A call in parts that waits for credits does not end the connection before the calls have timed out that were sent:
// a server may be busy with them for as long.
func TestCallInPartsWaitsForASlowAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newScript2(t, DialConfig{}, accepts2(3)) // the proposal and two messages
		one := s.start(null())
		q, _ := s.next2()
		x := exchangeFor(rpctest.ECHO, func(w *xdr.Writer) { w.Opaque(pattern(9000)) })
		x.MaxArgs = 9008
		long := s.start(x)
		time.Sleep(DefaultTimeout - time.Second)
		s.reply2(q.XID, 9)
		ended(t, one)
		for {
			if q, _ = s.next2(); q.Type == wire.TypeCallInline {
				break
			}
		}
		s.sendRaw(permits(message2(wire.TypeReplyInline, q.XID, nil, opaqueReply(q.XID, pattern(4))), 9))
		if r := ended(t, long); r.err != nil {
			t.Error(r.err)
		}
		s.client.Close()
	})
}

// A call in parts waits for as many credits as it has parts, while answers are to come. A call that waits does not
// hold up the answer to a call of the server.
func TestCallInPartsWaitsForCredits(t *testing.T) {
	back, _ := callbacks(t)
	s, _ := newScript2(t, DialConfig{Callbacks: back}, accepts2(4)) // the proposal and three messages
	one := s.start(null())
	q, _ := s.next2()
	x := exchangeFor(rpctest.ECHO, func(w *xdr.Writer) { w.Opaque(pattern(9000)) })
	x.MaxArgs = 9008
	long := s.start(x)
	s.sendRaw(permits(call2(5, rpctest.NULL), 4))
	if q, m := s.next2(); q.XID != 5 || q.Type != wire.TypeReplyInline {
		t.Fatalf("the client sends % x", m[:min(len(m), 40)])
	}
	s.reply2(q.XID, 5) // now nothing else is to come
	ended(t, one)
	for range 2 {
		if q, m := s.next2(); q.Type != wire.TypeCallMiddle {
			t.Fatalf("the client sends % x", m[:min(len(m), 40)])
		}
	}
	s.sendRaw(permits(message2(wire.TypeGrant, 0, nil, nil), 7))
	q, _ = s.next2()
	if q.Type != wire.TypeCallInline {
		t.Fatalf("the client sends %v", q.Type)
	}
	s.reply2(q.XID, 9)
	ended(t, long)
}

// Before the client has announced anything, messages have the default length, whatever the private data says.
func TestDefaultThresholdOfVersion2(t *testing.T) {
	b := newBench(t, benchConfig{server: Config{Version2: true}})
	p := b.peer2()
	p.send(message2(wire.TypeCallInline, 5, nil, rpctest.Message(5, rpctest.GET, count(3000))))
	p.next()
	if _, n := p.whole(5); n != 1 {
		t.Errorf("a reply of 3000 bytes takes %d messages", n)
	}
}

// Properties do not take effect while a goroutine may begin held calls, because those use the limits.
func TestPropertiesWaitForHeldCalls(t *testing.T) {
	s := newModelSide(t, "server", false, 4)
	s.v.peer.ReceiveSize = 8192
	s.v.k.own.SendSize, s.v.k.own.ReceiveSize = 8192, 8192
	s.v.k.responder.held.going, s.v.unapplied = true, true
	if s.v.apply(); !s.v.unapplied {
		t.Error("the properties are applied")
	}
	s.v.k.responder.held.going = false
	if s.v.apply(); s.v.unapplied || s.v.k.sendLimit != 8192 {
		t.Errorf("messages have up to %d bytes", s.v.k.sendLimit)
	}
}

// A server that takes segments of one byte gets no call with a chunk, and the client makes no list of them.
func TestTooManySegmentsAreNotMade(t *testing.T) {
	own := wire.DefaultProperties()
	own.SegmentSize = 1
	s, _ := newScript2(t, DialConfig{}, permits(properties2(9, own, wire.PropSegmentSize), 64))
	x := getTo(1<<20, make([]byte, 1<<20))
	if r := ended(t, s.start(x)); !errors.Is(r.err, errSegments) {
		t.Errorf("the call ends with %v", r.err)
	}
	e := newExchange(x, 1, 1)
	q := &requester{k: s.client.link, maxSegment: 1, maxSegments: 256}
	if _, err := e.encode(q); !errors.Is(err, errSegments) || cap(e.segments) > 1024 {
		t.Errorf("%v, %d segments", err, cap(e.segments))
	}
}
