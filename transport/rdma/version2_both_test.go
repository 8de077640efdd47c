package rdma

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/rdmatest"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// If speaking2 is true, benches and scripts speak version 2: scripted peers translate the messages that a test of version 1
// describes, and settle the version before the test begins. A test for which that suffices shows a rule of both versions.
var speaking2 bool

// The rules that the code keeps without knowing the version have one test each, which also runs over version 2.
func TestRulesOfBothVersions(t *testing.T) {
	speaking2 = true
	defer func() { speaking2 = false }()
	for _, c := range []struct {
		name, rows string // the rows of docs/conformance-rpcrdma-v2.md that the test shows
		test       func(*testing.T)
	}{
		{"TestUnansweredCallsHaveXIDsOfTheirOwn", "V2-N1", TestUnansweredCallsHaveXIDsOfTheirOwn},
		{"TestEachCallGetsOneReply", "V2-N2", TestEachCallGetsOneReply},
		{"TestOnlyRequestersExposeMemory", "V2-108, V2-N3", TestOnlyRequestersExposeMemory},
		{"TestNoAnswerBeforeTheLastRead", "V2-N9", TestNoAnswerBeforeTheLastRead},
		{"TestAFailedReadWaitsForTheOthers", "V2-N9", TestAFailedReadWaitsForTheOthers},
		{"TestGarbageArguments", "V2-N18", TestGarbageArguments},
		{"TestUnfencedMemoryEndsTheConnection", "V2-103", TestUnfencedMemoryEndsTheConnection},
		{"TestFailingWork", "V2-104", TestFailingWork},
		{"TestTagsBelongToTheirConnection", "V2-109", TestTagsBelongToTheirConnection},
		{"TestHandlesAreUnpredictable", "V2-N19", TestHandlesAreUnpredictable},
		{"TestExposureIsShort", "V2-108, V2-N19, V2-N20", TestExposureIsShort},
		{"TestCancelFences", "V2-N21", TestCancelFences},
		{"TestNoPlacement", "V2-111, V2-113", TestNoPlacement},
		{"TestNoPlacementUnderProtection", "V2-111, V2-113", TestNoPlacementUnderProtection},
	} {
		t.Run(c.name, c.test)
	}
}

// The calls of a client that have no answer have different XIDs.
func TestUnansweredCallsHaveXIDsOfTheirOwn(t *testing.T) {
	const calls = 8
	s := newScript(t, DialConfig{}, nil)
	s.ramp(calls)
	seen := map[uint32]<-chan result{}
	for range calls {
		done := s.start(null())
		h, _ := s.next()
		if seen[h.XID] != nil {
			t.Fatalf("XID %#x again", h.XID)
		}
		seen[h.XID] = done
	}
	for xid, done := range seen {
		s.reply(message{xid: xid, payload: opaqueReply(xid, nil)})
		if r := ended(t, done); r.err != nil {
			t.Error(r.err)
		}
	}
}

// Each call gets one answer, in whatever way the answer comes.
func TestEachCallGetsOneReply(t *testing.T) {
	const lane = 0x2_0002
	b := newBench(t, benchConfig{})
	p := b.peer()
	data := pattern(3000)
	memory := p.Expose(data, rdmacm.RemoteRead)
	room := p.Expose(make([]byte, 30_000), rdmacm.RemoteWrite)
	put, position := putCall(3, "name", len(data))
	ineligible := rpctest.Message(6, rpctest.NULL, nil)
	messages := []message{
		{xid: 1, payload: rpctest.Message(1, rpctest.NULL, nil)},
		{xid: 2, payload: rpctest.Message(2, rpctest.LATER, count(7))},
		{xid: 3, payload: put, reads: at(position, cut(memory, len(data))...)},
		{xid: 4, payload: rpctest.Message(4, rpctest.GET, count(3000)), writes: [][]wire.Segment{cut(room, 3000)}},
		{xid: 5, payload: rpctest.Message(5, rpctest.WIDE, count(20_000)), reply: cut(room, 30_000)},
		{xid: 6, payload: ineligible, reads: at(len(ineligible), cut(memory, 8)...)},
		{xid: 7, payload: rpctest.Message(7, rpctest.ECHO, count(400))}, // its arguments are cut off
		{xid: 8, payload: rpctest.Message(8, rpctest.STALL, count(lane))},
	}
	for _, m := range messages {
		if err := p.Send(m.bytes()); err != nil {
			t.Fatal(err)
		}
	}
	for range len(messages) - 1 {
		p.Receive()
	}
	b.program.Release(lane)
	p.Receive()
	b.alive(p)
	answers := map[uint32]int{}
	for _, m := range p.Messages()[setUp():] {
		q, _ := wire.ParsePrefix(m.Bytes)
		answers[q.XID]++
	}
	for _, m := range messages {
		if n := answers[m.xid]; n != 1 {
			t.Errorf("call %d got %d answers", m.xid, n)
		}
	}
	if len(answers) != len(messages)+1 {
		t.Errorf("answers for %d calls", len(answers))
	}
}

// Whatever form a call and its reply have, the requester alone exposes memory, all of which it takes back, and the
// responder alone issues RDMA Reads and Writes.
func TestOnlyRequestersExposeMemory(t *testing.T) {
	b := newBench(t, benchConfig{})
	c := b.dial(DialConfig{Version2: speaking2})
	for _, err := range []error{
		put(t, c, pattern(50_000)), get(t, c, 50_000, make([]byte, 50_000)), get(t, c, 50_000, nil), rpctest.Echo(c, rpctest.MaxEcho),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	server := b.connection().device.(*rdmatest.Conn)
	client := server.Other()
	log := b.provider.Log()
	count := func(is func(rdmatest.Event) bool) int { return len(log.Find(is)) }
	if count(rdmatest.IsPost(rdmacm.OpRead, server.ID())) == 0 || count(rdmatest.IsPost(rdmacm.OpWrite, server.ID())) == 0 ||
		count(rdmatest.Is(rdmatest.KindRegister, client.ID())) == 0 {
		t.Error("the calls moved nothing by RDMA")
	}
	if count(rdmatest.IsPost(rdmacm.OpRead, client.ID()))+count(rdmatest.IsPost(rdmacm.OpWrite, client.ID())) > 0 {
		t.Error("the requester issued an RDMA Read or Write")
	}
	if n := count(rdmatest.Is(rdmatest.KindRegister, server.ID())); n > 0 {
		t.Errorf("the responder exposed memory %d times", n)
	}
	for _, conn := range []*rdmatest.Conn{server, client} {
		if _, regions := conn.Held(); regions != 0 {
			t.Errorf("%d regions are exposed after the calls", regions)
		}
	}
}

// much2 is how many messages a scripted peer permits the other side.
const much2 = 1 << 16

// bytes2 returns m as a message of version 2. Its credits permit all that the other side will send.
func (m message) bytes2() []byte {
	l := wire.Lists{Reads: m.reads, Writes: m.writes, Reply: m.reply}
	external := m.proc == wire.ProcNoMsg
	p := wire.Prefix2{XID: m.xid, Version: wire.Version2, Limit: much2, Type: callType(external)}
	if !m.answer {
		b := make([]byte, l.Size2(p.Type))
		l.Put2(b, p, 0)
		return append(b, m.payload...)
	}
	// A reply: the Write list, and the Reply chunk if the message is in it.
	p.Type = replyType(external)
	var body []uint32
	for _, c := range m.writes {
		body = append(body, append([]uint32{1}, chunk2(c)...)...)
	}
	body = append(body, 0)
	if external {
		body = append(append(body, 1), chunk2(m.reply)...)
	}
	return permits(message2(p.Type, m.xid, body, m.payload), much2)
}

// chunk2 returns the words of a Write chunk.
func chunk2(segments []wire.Segment) []uint32 {
	c := []uint32{uint32(len(segments))}
	for _, s := range segments {
		c = append(c, s.Handle, s.Length, uint32(s.Offset>>32), uint32(s.Offset))
	}
	return c
}

// setUp returns how many messages a server sends before the calls of a scripted client.
func setUp() int {
	if speaking2 {
		return 1
	}
	return 0
}

// settled settles the version for the scripted client p. Version 2 does so by the properties of both sides.
func (b *bench) settled(p *rdmatest.Peer) {
	b.t.Helper()
	if !speaking2 {
		return
	}
	if err := p.Send(permits(properties2(7, wire.DefaultProperties()), much2)); err != nil {
		b.t.Fatal(err)
	}
	if q, ok := wire.ParsePrefix2(p.Receive().Bytes); !ok || q.Type != wire.TypeConnpropFinal {
		b.t.Fatalf("the server begins with %v", q.Type)
	}
}

// settle2 answers the client's first message with properties.
func (s *script) settle2() {
	s.t.Helper()
	if q, ok := wire.ParsePrefix2(s.p.Receive().Bytes); !ok || q.Type != wire.TypeConnpropFinal {
		s.t.Fatalf("the client begins with %v", q.Type)
	}
	s.sendRaw(accepts2(much2))
}

// called2 returns the header of a call of version 2, as if it had version 1, and its payload.
func called2(t testing.TB, m rdmatest.Message) (wire.Header, []byte) {
	t.Helper()
	var h wire.Call2
	if h.Parse(m.Bytes).Refused() || h.Version != wire.Version2 {
		t.Fatalf("the call's header: % x", m.Bytes)
	}
	old := wire.Header{Reads: h.Reads, Offer: h.Offer, Size: h.Size}
	old.XID, old.Version, old.Proc = h.XID, h.Version, wire.ProcMsg
	if h.Type == wire.TypeCallExternal {
		old.Proc = wire.ProcNoMsg
		if old.Reads.Len() > 0 {
			t.Fatal("the test does not know a call with a Call chunk and Read chunks")
		}
		old.Reads = h.Body
	}
	return old, m.Bytes[h.Size:]
}

// answered2 returns the header of a reply of version 2, as if it had version 1, and its payload.
func answered2(t testing.TB, m rdmatest.Message) (wire.Header, []byte) {
	t.Helper()
	var h wire.Reply2
	if h.Parse(m.Bytes).Refused() || h.Version != wire.Version2 {
		t.Fatalf("the reply's header: % x", m.Bytes)
	}
	old := wire.Header{Offer: wire.Offer{Writes: h.Writes, Reply: h.Reply}, Size: h.Size}
	old.XID, old.Version, old.Proc = h.XID, h.Version, wire.ProcMsg
	if h.Type == wire.TypeReplyExternal {
		old.Proc = wire.ProcNoMsg
	}
	return old, m.Bytes[h.Size:]
}

// wantError2 fails the test unless m is an RDMA2_ERR_BAD_XDR for this XID.
func wantError2(t testing.TB, m rdmatest.Message, xid uint32) {
	t.Helper()
	q, _ := wire.ParsePrefix2(m.Bytes)
	if e, ok := wire.ParseErrorBody2(m.Bytes); !ok || q.Type != wire.TypeError || q.XID != xid || e.Code != wire.Err2BadXDR || m.Invalidated != 0 {
		t.Fatalf("want BAD_XDR for XID %#x, got % x", xid, m.Bytes)
	}
}
