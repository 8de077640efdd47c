package rdma

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/rdmatest"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// The first message of a client proposes version 2. It is short, but long enough that a server of version 1
// answers it (V2-14, V2-N6). The client's messages are counted from there: it permits the server the answer
// (V2-5, V2-6).
func TestProposal(t *testing.T) {
	_, first := newScript2(t, DialConfig{}, accepts2(8))
	p, _ := wire.ParsePrefix2(first)
	if p.Version != wire.Version2 || p.Type != wire.TypeConnpropFinal || p.XID == 0 {
		t.Errorf("the first message is % x", first)
	}
	if len(first) < wire.MinHeader || len(first) > wire.MaxFirstMessage {
		t.Errorf("the first message has %d bytes", len(first))
	}
	if p.Limit != window2 {
		t.Errorf("the server may send %d messages", p.Limit)
	}
}

// A server that knows only version 1 refuses the proposal. The client goes on with version 1 on the same
// connection, and on each later one (V2-73, V2-17).
func TestVersion2Refused(t *testing.T) {
	// The error has the version of the refused message, although its sender does not know that version.
	s, _ := newScript2(t, DialConfig{Reconnect: true}, words(0xbad, 2, 1, 4, 1, 1, 1))
	done := s.start(null())
	h, _ := s.next()
	if h.Version != wire.Version1 || h.Credits != DefaultCredits {
		t.Fatalf("the client calls with version %d, %d credits", h.Version, h.Credits)
	}
	s.p.Conn().Abort(nil)
	s.p = s.accept(nil)
	again, _ := s.next() // the same call: it is not lost
	if again.Version != wire.Version1 || again.XID != h.XID {
		t.Errorf("on the next connection the client begins with version %d, XID %#x, want %#x", again.Version, again.XID, h.XID)
	}
	s.reply(message{xid: again.XID, payload: success(again.XID)})
	ended(t, done)
	if i, ok := s.client.Info(); !ok || i.Version != 1 {
		t.Errorf("the connection is %+v", i)
	}
}

// A server that ends the connection when it gets the proposal is served with version 1 (V2-N7).
func TestVersion2Dropped(t *testing.T) {
	s, _ := newScript2(t, DialConfig{}, nil)
	done := s.start(null())
	h, _ := s.next()
	if h.Version != wire.Version1 {
		t.Fatalf("the client calls with version %d", h.Version)
	}
	s.reply(message{xid: h.XID, payload: success(h.XID)})
	ended(t, done)
}

// The servers of this package: one that does not speak version 2 refuses it, and a client of version 1 finds
// no difference in one that does.
func TestVersionsMeet(t *testing.T) {
	for _, c := range []struct {
		server, client bool
		want           int
	}{{false, false, 1}, {false, true, 1}, {true, false, 1}, {true, true, 2}} {
		b := newBench(t, benchConfig{server: Config{Version2: c.server}})
		k := b.dial(DialConfig{Version2: c.client})
		if err := do(t, k, null(), nil); err != nil {
			t.Fatal(err)
		}
		if i, _ := k.Info(); i.Version != c.want {
			t.Errorf("server %v, client %v: version %d", c.server, c.client, i.Version)
		}
	}
}

// The client sends no message that the server does not permit, and prepares no call before that (V2-7, V2-9,
// V2-N5).
func TestClientKeepsTheLimit(t *testing.T) {
	s, _ := newScript2(t, DialConfig{}, accepts2(3)) // the proposal and two calls
	var all []<-chan result
	for range 6 {
		all = append(all, s.start(null()))
	}
	one, _ := s.next2()
	two, _ := s.next2()
	s.reply2(one.XID, 3)
	s.reply2(two.XID, 3)
	ended(t, all[0])
	ended(t, all[1])
	k := s.client.link.framing.(*version2)
	if n := k.granted(); n != 0 || len(s.p.Messages()) != 3 {
		t.Fatalf("%d messages are permitted, %d came", n, len(s.p.Messages()))
	}
	k.mu.Lock()
	if k.waiting != 0 {
		t.Errorf("%d calls wait whose memory is exposed already", k.waiting)
	}
	k.mu.Unlock()
	// A grant permits two more. Its XID has no meaning (V2-51).
	s.sendRaw(permits(message2(wire.TypeGrant, one.XID+2, nil, nil), 5))
	three, _ := s.next2()
	four, _ := s.next2()
	s.reply2(four.XID, 5)
	s.reply2(three.XID, 7)
	for range 2 {
		q, _ := s.next2()
		s.reply2(q.XID, 7)
	}
	for _, done := range all[2:] {
		ended(t, done)
	}
}

// A connection begins with the permission for one message, whatever this side permits the peer. Row V2-7 of
// docs/conformance.md.
func TestLimitAtTheBeginning(t *testing.T) {
	for _, dialed := range []bool{true, false} {
		if n := newVersion2(&connection{dialed: dialed, messages: messages{stats: new(Stats)}}, 40).granted(); n != 1 {
			t.Errorf("dialed %v: %d messages are permitted", dialed, n)
		}
	}
}

// Counts go on from 0 after 2^32-1: a limit that has begun again may be ahead of a count that has not (V2-N4).
func TestCountsWrap(t *testing.T) {
	for _, c := range []struct {
		sent, limit uint32
		may         bool
	}{{math.MaxUint32, 0, true}, {math.MaxUint32, math.MaxUint32, false}, {0, math.MaxUint32, false}, {1, 0, false}} {
		v := &version2{credits2: credits2{sent: c.sent, limit: c.limit}, released: true}
		if v.mayLocked() != c.may {
			t.Errorf("%d messages sent, limit %d: a message may be sent: %v", c.sent, c.limit, !c.may)
		}
	}
}

// The first message of version 2 settles the version. The server answers with its properties, then the
// connection has one version (V2-13, V2-16, V2-74, V2-75).
func TestVersionIsSettled(t *testing.T) {
	b := newBench(t, benchConfig{server: Config{Version2: true, Credits: 8}})
	p := b.peer2()
	p.open()
	if p.permits != 8+1 { // as many as credits, and the message that was answered
		t.Errorf("the server permits %d messages", p.permits)
	}
	p.alive()
	for version, code := range map[uint32]wire.ErrorCode2{
		1: wire.Err2VersMismatch, 0: wire.Err2Vers, 3: wire.Err2Vers, 0xffffffff: wire.Err2Vers,
	} {
		m := call2(0x77, rpctest.NULL)
		binary.BigEndian.PutUint32(m[4:], version)
		calls := b.server.Stats().Replies.Load()
		p.send(m)
		if e := p.wantError2(0x77, version, code); code == wire.Err2Vers && (e.Low != 1 || e.High != 2) {
			t.Errorf("versions %d to %d", e.Low, e.High)
		}
		if n := b.server.Stats().Replies.Load(); n != calls {
			t.Error("the message was served")
		}
	}
	p.alive()
}

// On a connection of version 1, a message of version 2 has the wrong version, although the server knows it
// (V2-74, V2-75).
func TestVersion1IsSettled(t *testing.T) {
	b := newBench(t, benchConfig{server: Config{Version2: true}})
	p := b.peerWith(nil, 64)
	b.alive(p)
	m := b.call(p, message{xid: 9, version: 2, payload: rpctest.Message(9, rpctest.NULL, nil)})
	q, _ := wire.ParsePrefix2(m.Bytes)
	if e, ok := wire.ParseErrorBody2(m.Bytes); !ok || e.Code != wire.Err2VersMismatch || q.XID != 9 || q.Version != 2 {
		t.Errorf("the server answers % x", m.Bytes)
	}
	b.alive(p)
	if c := b.server.Stats().Version(1); c.Errors != 1 || c.Received != 3 || c.Sent != 3 {
		t.Errorf("%+v", c)
	}
}

// A server that does not answer the proposal is served with version 1, on another connection (V2-N7).
func TestVersion2Unanswered(t *testing.T) {
	defer func(d time.Duration) { answerWait = d }(answerWait)
	answerWait = time.Millisecond
	s := listening(t, rdmatest.Config{})
	defer s.listener.Close()
	done := make(chan error, 1)
	go func() {
		var err error
		s.client, err = Dial(t.Context(), s.device, s.listener.Addr(), DialConfig{Version2: true})
		done <- err
	}()
	s.accept(nil) // the client may end it before the proposal arrives
	s.p = s.accept(nil)
	if err := ended(t, done); err != nil {
		t.Fatal(err)
	}
	defer s.client.Close()
	call := s.start(null())
	h, _ := s.next()
	if h.Version != wire.Version1 {
		t.Errorf("the client calls with version %d", h.Version)
	}
	s.reply(message{xid: h.XID, payload: success(h.XID)})
	ended(t, call)
}

// A client that permits no replies for too long loses its connection, because they occupy memory.
func TestRepliesDoNotWaitForever(t *testing.T) {
	defer func(d time.Duration) { creditPatience = d }(creditPatience)
	creditPatience = time.Millisecond
	b := newBench(t, benchConfig{server: Config{Version2: true}})
	p := b.peer2()
	p.limit, p.frozen = 1, true
	p.open()
	p.send(call2(5, rpctest.NULL))
	wantEnd(t, p.p, "the client keeps its connection")
	await.Until(t, "the connection is gone", func() bool { return b.server.Stats().Connections.Load() == 0 })
	if n := b.server.Stats().Timeouts(); n != 1 {
		t.Errorf("%d connections have stalled", n)
	}
}

// A client whose replies wait because it permits none is not busy: as a stranger it keeps its seat no longer than one
// that says nothing.
func TestRepliesWithoutPermissionKeepNoSeat(t *testing.T) {
	b := newBench(t, benchConfig{server: Config{Version2: true}})
	p := b.peer2()
	p.limit, p.frozen = 1, true
	p.open()
	for xid := range uint32(3) {
		p.send(call2(5+xid, rpctest.NULL))
	}
	k := (*seated)(b.connection())
	await.Until(t, "the replies wait", func() bool { return k.framing.(*version2).unpermitted() == 3 })
	if k.Busy() {
		t.Error("the connection is busy")
	}
}

// A message of an unknown version settles nothing (V2-71, V2-72).
func TestUnknownVersionSettlesNothing(t *testing.T) {
	b := newBench(t, benchConfig{server: Config{Version2: true}})
	for _, version := range []uint32{1, 2} {
		p := b.peer2()
		m := call2(0x78, rpctest.NULL)
		binary.BigEndian.PutUint32(m[4:], 9)
		p.send(m)
		if e := p.wantError2(0x78, 9, wire.Err2Vers); e.Low != 1 || e.High != 2 {
			t.Errorf("versions %d to %d", e.Low, e.High)
		}
		if version == 1 {
			b.alive(p.p)
		} else {
			p.open()
			p.alive()
		}
	}
	p := b.peerWith(nil, 64)
	for range mostUndecided + 1 {
		m := call2(0x78, rpctest.NULL)
		binary.BigEndian.PutUint32(m[4:], 9)
		p.Send(m)
	}
	wantEnd(t, p, "a client that proposes nothing keeps its connection")
}

// If the first message is a call, the properties of the server come before its reply. The client is ready
// for the two of them (V2-13).
func TestFirstMessageIsACall(t *testing.T) {
	b := newBench(t, benchConfig{server: Config{Version2: true}})
	p := b.peer2()
	p.limit, p.frozen = 2, true
	p.send(call2(5, rpctest.NULL))
	if q, _ := p.next(); q.Type != wire.TypeConnpropFinal {
		t.Errorf("the server begins with %v", q.Type)
	}
	if q, _ := p.next(); q.Type != wire.TypeReplyInline || q.XID != 5 {
		t.Errorf("%v for XID %d", q.Type, q.XID)
	}
	// A second call, with which the client permits no answer, waits for a grant.
	p.send(call2(6, rpctest.NULL))
	await.Until(t, "the reply waits", func() bool {
		v := b.connection().framing.(*version2)
		v.mu.Lock()
		defer v.mu.Unlock()
		return v.waiting == 1
	})
	p.limit = 3
	p.send(message2(wire.TypeGrant, 0, nil, nil))
	if q, _ := p.next(); q.Type != wire.TypeReplyInline || q.XID != 6 {
		t.Errorf("%v for XID %d", q.Type, q.XID)
	}
}

// Until the client has sent a second message, the server sends one, although the client permits more (V2-13). Here it
// announces its properties, and the refusal of the client's waits.
func TestOneMessageBeforeTheVersionIsSettled(t *testing.T) {
	b := newBench(t, benchConfig{server: Config{Version2: true}})
	p := b.peer2()
	p.send(message2(wire.TypeConnpropFinal, 7, []uint32{1, uint32(wire.PropSendSize), 3, 0x00100000}, nil))
	if q, _ := p.next(); q.Type != wire.TypeConnpropFinal {
		t.Errorf("the server begins with %v", q.Type)
	}
	v := b.connection().framing.(*version2)
	await.Until(t, "the refusal waits, or is sent", func() bool {
		v.mu.Lock()
		defer v.mu.Unlock()
		if v.sent > 1 {
			t.Fatalf("the server has sent %d messages", v.sent)
		}
		return v.waiting == 1
	})
	p.send(call2(8, rpctest.NULL))
	p.wantError2(7, wire.Version2, wire.Err2BadPropval)
	if q, _ := p.next(); q.Type != wire.TypeReplyInline || q.XID != 8 {
		t.Errorf("%v for XID %d", q.Type, q.XID)
	}
}

// The answer to a first message that is a call may come in parts.
func TestFirstMessageIsACallWithALongReply(t *testing.T) {
	b := newBench(t, benchConfig{server: Config{Version2: true}})
	p := b.peer2()
	p.send(message2(wire.TypeCallInline, 5, nil, rpctest.Message(5, rpctest.GET, count(9000))))
	if q, _ := p.next(); q.Type != wire.TypeConnpropFinal {
		t.Errorf("the server begins with %v", q.Type)
	}
	stream, n := p.whole(5)
	if n < 3 {
		t.Errorf("the reply takes %d messages", n)
	}
	results(t, 5, stream)
	p.alive()
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

// If the server refuses version 2 after it has sent something else, what waits of version 2 ends with that version. Its
// timer would end the connection later, although that has version 1.
func TestNothingIsLeftOfARefusedVersion(t *testing.T) {
	s := newModelSide(t, "client", true, 4)
	v, chosen := s.v, uint32(0)
	v.decided = func(version uint32) { chosen = version }
	v.released, v.limit = false, 0
	v.sendError(&inbound{xid: 7, version: 9}, faultVersion, 1)
	if v.waiting != 1 || v.patience == nil {
		t.Fatalf("%d messages wait", v.waiting)
	}
	refusal := words(0xbad, 2, 1, 4, 1, 1, 1)
	p, _ := wire.ParsePrefix2(refusal)
	if !v.refusedVersion(p, refusal) || chosen != wire.Version1 {
		t.Fatalf("version %d is chosen", chosen)
	}
	if v.patience.Stop() {
		t.Error("the timer of version 2 runs")
	}
	if k := v.k; k.sent.Load() != k.back.Load() {
		t.Error("a message still waits")
	}
}
