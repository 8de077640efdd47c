package rdma

import (
	"bytes"
	"errors"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// echo returns the message of a call that gets n bytes back.
func echo(xid uint32, n int) []byte {
	return rpctest.Message(xid, rpctest.ECHO, func(w *xdr.Writer) { w.Opaque(pattern(n)) })
}

// part returns a message with a part of an RPC message.
func part(t wire.HeaderType, xid uint32, remaining int, stream []byte) []byte {
	return message2(t, xid, []uint32{uint32(remaining)}, stream)
}

// inParts returns a call in parts of size bytes.
func inParts(xid uint32, call []byte, size int) (all [][]byte) {
	for len(call) > size {
		all = append(all, part(wire.TypeCallMiddle, xid, len(call)-size, call[:size]))
		call = call[size:]
	}
	return append(all, message2(wire.TypeCallInline, xid, nil, call))
}

// whole receives a reply, which may come in parts, and returns its stream and the number of messages. Between
// its parts there is no other message (V2-1, V2-2, V2-3, V2-60).
func (p *peer2) whole(xid uint32) (stream []byte, messages int) {
	p.t.Helper()
	left := -1
	for {
		q, m := p.next()
		messages++
		if left < 0 && q.Type == wire.TypeGrant {
			messages--
			continue
		}
		switch {
		case q.XID != xid || q.Type != wire.TypeReplyMiddle && q.Type != wire.TypeReplyInline:
			p.t.Fatalf("the server answers % x", m[:min(len(m), 40)])
		case len(m) > wire.DefaultInline2: // row V2-12
			p.t.Fatalf("a message of %d bytes", len(m))
		}
		data := m[wire.PartSize:] // a reply without Write chunks has the same size of header
		stream = append(stream, data...)
		if left >= 0 && left < len(data) {
			p.t.Fatalf("%d bytes were left, %d came", left, len(data))
		}
		if q.Type == wire.TypeReplyInline {
			if left >= 0 && left != len(data) {
				p.t.Fatalf("%d bytes were left, %d came", left, len(data))
			}
			return stream, messages
		}
		var h wire.Part2
		h.Parse(m)
		if left >= 0 && left != len(data)+int(h.Remaining) {
			p.t.Fatalf("%d bytes were left, then %d and %d", left, len(data), h.Remaining)
		}
		left = int(h.Remaining)
	}
}

// Calls and replies of many lengths go in parts, of any length from 4 bytes on, and come back whole. A peer
// with few credits gets grants for its parts (V2-2, V2-12, V2-48, V2-60, V2-65, V2-11).
func TestPartsOfCallsAndReplies(t *testing.T) {
	b := newBench(t, benchConfig{server: Config{Version2: true, Credits: 4}})
	p := b.peer2()
	p.open()
	for xid, c := range []struct{ bytes, part int }{{100, 4}, {101, 4}, {3900, 400}, {5000, 4000}, {16001, 1000}, {16384, 4076}} {
		call := echo(uint32(xid), c.bytes)
		for _, m := range inParts(uint32(xid), call, c.part) {
			for p.sent == p.permits {
				if q, m := p.next(); q.Type != wire.TypeGrant {
					t.Fatalf("the server sends % x", m[:min(len(m), 40)])
				}
			}
			p.send(m)
		}
		stream, n := p.whole(uint32(xid))
		d := results(t, uint32(xid), stream)
		if got := d.Opaque(rpctest.MaxEcho); !bytes.Equal(got, pattern(c.bytes)) || d.Finish() != nil {
			t.Errorf("ECHO of %d bytes differs", c.bytes)
		}
		if want := (c.bytes + 4000 + 100) / 4076; n != max(1, want) && n != want+1 {
			t.Errorf("a reply of %d bytes takes %d messages", c.bytes, n)
		}
	}
}

// Whatever the lengths of the header and of the stream, parts are as long as a Send may be, and not shorter than
// a word, and a stream that is not longer than longest says takes as many Sends as were asked for.
func TestSplit(t *testing.T) {
	for _, limit := range []int{1024, 1027, 4096} {
		for header := wire.MinReplyInline; header <= limit; header += 4 {
			v := &version2{k: &connection{messages: messages{sendLimit: limit}}}
			longest := v.longest(header, limit, callSends) &^ 3
			for _, left := range []int{limit - header + 1, limit - header + 5, longest - 4, longest} {
				if left = (left + 3) &^ 3; left <= limit-header || left > longest {
					continue
				}
				o := &outbound{head: message2(wire.TypeReplyInline, 1, nil, make([]byte, header-wire.MinReplyInline))}
				whole := pattern(left)
				o.local = [][]byte{o.head, whole[:left/3], whole[left/3 : left/2], whole[left/2:]}
				var stream []byte
				var all []*outbound
				parts := v.split(o, left, limit-header)
				for i := range parts {
					all = append(all, &parts[i])
				}
				for i, m := range append(all, o) {
					size := 0
					for _, b := range m.local {
						size += len(b)
					}
					if part := size - len(m.head); size > limit || part < wire.MinFragment {
						t.Fatalf("limit %d, header %d, %d bytes: a message of %d bytes with a part of %d", limit, header, left, size, part)
					}
					for _, piece := range m.local[1:] {
						stream = append(stream, piece...)
					}
					if i < len(parts) && m.sends != len(parts)+1-i {
						t.Fatalf("part %d of %d says that %d messages are to come", i, len(parts), m.sends)
					}
				}
				o.reset()
				if all = append(all, o); len(all) > callSends || !bytes.Equal(stream, pattern(left)) {
					t.Fatalf("limit %d, header %d, %d bytes: %d messages", limit, header, left, len(all))
				}
			}
		}
	}
}

// Replies in parts that are ready at the same time do not mix (V2-3).
func TestPartsDoNotMix(t *testing.T) {
	b := newBench(t, benchConfig{server: Config{Version2: true, Credits: 8}})
	p := b.peer2()
	p.limit, p.frozen = 1, true // permits the properties alone
	p.open()
	for xid := range uint32(4) {
		p.send(message2(wire.TypeCallInline, xid, nil, rpctest.Message(xid, rpctest.GET, count(9000))))
	}
	p.limit = 64
	p.send(message2(wire.TypeGrant, 0, nil, nil))
	for range 4 {
		q, m := p.next()
		if q.Type != wire.TypeReplyMiddle {
			t.Fatalf("the server answers % x", m[:40])
		}
		for xid := q.XID; q.Type == wire.TypeReplyMiddle; {
			if q, _ = p.next(); q.XID != xid {
				t.Fatalf("a part of %d among those of %d", q.XID, xid)
			}
		}
	}
	p.alive()
}

// What breaks the order of parts is refused, and so is the call that it interrupts. The parts that come after
// that are dropped, none of the calls is served, and the connection continues (V2-52, V2-56, V2-80, V2-81).
func TestBrokenRuns(t *testing.T) {
	const xid, other = 0x51, 0x52
	call := echo(xid, 1000)
	begin := part(wire.TypeCallMiddle, xid, len(call)-400, call[:400])
	rest := message2(wire.TypeCallInline, xid, nil, call[400:])
	for name, c := range map[string]struct {
		messages [][]byte
		refused  []uint32 // the XIDs of the errors, all with INVAL_CONT
	}{
		"another call":           {[][]byte{begin, call2(other, rpctest.NULL), rest}, []uint32{xid, other}},
		"a part of another call": {[][]byte{begin, part(wire.TypeCallMiddle, other, 40, call[:40]), rest}, []uint32{xid, other}},
		"an external call":       {[][]byte{begin, message2(wire.TypeCallExternal, other, []uint32{0}, nil), rest}, []uint32{xid, other}},
		"properties":             {[][]byte{begin, properties2(other, wire.DefaultProperties()), rest}, []uint32{xid, other}},
		"too much is left":       {[][]byte{begin, part(wire.TypeCallMiddle, xid, len(call), call[400:800]), rest}, []uint32{xid}},
		"nothing is left":        {[][]byte{part(wire.TypeCallMiddle, xid, 0, call), rest}, []uint32{xid}},
		"the end is too short":   {[][]byte{begin, message2(wire.TypeCallInline, xid, nil, call[404:])}, []uint32{xid}},
		"a part of 3 bytes":      {[][]byte{part(wire.TypeCallMiddle, xid, 400, call[:3]), rest}, []uint32{xid}},
		"too long":               {[][]byte{part(wire.TypeCallMiddle, xid, mostParts, call[:400]), rest}, []uint32{xid}},
		"unfinished properties":  {[][]byte{message2(wire.TypeConnpropMiddle, 9, []uint32{0}, nil), call2(xid, rpctest.NULL)}, []uint32{9}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, benchConfig{server: Config{Version2: true}})
			p := b.peer2()
			p.open()
			replies := b.server.Stats().Replies.Load()
			for _, m := range c.messages {
				p.send(append([]byte(nil), m...))
			}
			for range c.refused {
				q, m := p.next()
				e, ok := wire.ParseErrorBody2(m)
				if !ok || q.Type != wire.TypeError || e.Code != wire.Err2InvalCont {
					t.Fatalf("the server answers % x", m)
				}
				if q.XID != c.refused[0] && q.XID != c.refused[len(c.refused)-1] {
					t.Errorf("the error is for XID %#x", q.XID)
				}
			}
			if name == "unfinished properties" {
				q, _ := p.next()
				if q.Type != wire.TypeReplyInline {
					t.Errorf("%v", q.Type)
				}
			} else if n := b.server.Stats().Replies.Load(); n != replies {
				t.Error("a call was served")
			}
			p.alive()
			if n := b.connection().framing.(*version2).run; n.charged != 0 || n.stream != nil {
				t.Errorf("%d bytes of parts are kept", n.charged)
			}
		})
	}
}

// A grant between the parts of a call is refused, but its credits count, and the call goes on.
func TestGrantBetweenParts(t *testing.T) {
	b := newBench(t, benchConfig{server: Config{Version2: true}})
	p := b.peer2()
	p.open()
	call := echo(5, 1000)
	p.send(part(wire.TypeCallMiddle, 5, len(call)-400, call[:400]))
	p.send(message2(wire.TypeGrant, 0, nil, nil))
	p.wantError2(0, wire.Version2, wire.Err2InvalCont)
	p.send(message2(wire.TypeCallInline, 5, nil, call[400:]))
	stream, _ := p.whole(5)
	results(t, 5, stream)
}

// A client sends a call that is a little too long in parts, and takes a reply in parts. A server that breaks
// the order of a reply ends that call, and gets an error (V2-55, V2-61).
func TestPartsOfAClient(t *testing.T) {
	s, _ := newScript2(t, DialConfig{}, accepts2(64))
	x := exchangeFor(rpctest.ECHO, func(w *xdr.Writer) { w.Opaque(pattern(9000)) })
	x.MaxArgs = 9008
	done := s.start(x)
	var call []byte
	q, m := s.next2()
	for q.Type == wire.TypeCallMiddle {
		call = append(call, m[wire.PartSize:]...)
		xid := q.XID
		if q, m = s.next2(); q.XID != xid {
			t.Fatal("a part of another call")
		}
	}
	var h wire.Call2
	if h.Parse(m).Refused() || q.Type != wire.TypeCallInline {
		t.Fatalf("the client calls with % x", m[:40])
	}
	if call = append(call, m[h.Size:]...); !bytes.Equal(call[len(call)-9000:], pattern(9000)) {
		t.Error("the call differs")
	}
	reply := opaqueReply(q.XID, pattern(9000))
	s.sendRaw(permits(part(wire.TypeReplyMiddle, q.XID, len(reply)-4000, reply[:4000]), 64))
	s.sendRaw(permits(part(wire.TypeReplyMiddle, q.XID, len(reply)-8000, reply[4000:8000]), 64))
	s.sendRaw(permits(message2(wire.TypeReplyInline, q.XID, nil, reply[8000:]), 64))
	if r := ended(t, done); r.err != nil || !bytes.Equal(r.data, pattern(9000)) {
		t.Errorf("the call ends with %v", r.err)
	}

	done = s.start(null())
	q, _ = s.next2()
	s.sendRaw(permits(part(wire.TypeReplyMiddle, q.XID, 400, reply[:400]), 64))
	s.sendRaw(permits(message2(wire.TypeReplyInline, q.XID+1, nil, success(q.XID+1)), 64))
	if r := ended(t, done); !errors.Is(r.err, errBrokenReply) {
		t.Errorf("the call ends with %v", r.err)
	}
	for range 2 {
		e, m := s.next2()
		if body, ok := wire.ParseErrorBody2(m); !ok || e.Type != wire.TypeError || body.Code != wire.Err2InvalCont {
			t.Errorf("the client answers % x", m)
		}
	}
}

// A part of a reply that cannot be taken ends its call. It was the answer that the call permitted, so no other
// message is permitted in its place. The parts behind it are dropped.
func TestBadPartsOfReplies(t *testing.T) {
	for name, c := range map[string]struct {
		begun     bool // a good part comes before
		remaining []uint32
		bytes     int
		refused   bool // the server gets an error
	}{
		"a wrong length":   {true, []uint32{4000}, 400, true},
		"3 bytes":          {true, []uint32{397}, 3, true},
		"3 bytes at first": {false, []uint32{397}, 3, true},
		"too long":         {false, []uint32{mostParts}, 400, true},
		"half a header":    {true, nil, 0, false},
		"no header":        {false, nil, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := newScript2(t, DialConfig{}, accepts2(64))
			done := s.start(null())
			q, _ := s.next2()
			stream := opaqueReply(q.XID, pattern(2000))
			if c.begun {
				s.sendRaw(permits(part(wire.TypeReplyMiddle, q.XID, 400, stream[:400]), 64))
			}
			s.sendRaw(permits(message2(wire.TypeReplyMiddle, q.XID, c.remaining, stream[:c.bytes]), 64))
			if r := ended(t, done); r.err != errBrokenReply {
				t.Errorf("the call ends with %v", r.err)
			}
			if c.refused {
				e, m := s.next2()
				if body, ok := wire.ParseErrorBody2(m); !ok || e.XID != q.XID || body.Code != wire.Err2InvalCont {
					t.Errorf("the client answers % x", m)
				}
			}
			s.sendRaw(permits(message2(wire.TypeReplyInline, q.XID, nil, stream[:400]), 64))
			done = s.start(null())
			q, _ = s.next2()
			s.sendRaw(permits(message2(wire.TypeReplyInline, q.XID, nil, opaqueReply(q.XID, pattern(4))), 64))
			if r := ended(t, done); r.err != nil {
				t.Errorf("the next call ends with %v", r.err)
			}
			wantPromised(t, s.p, spareReceives+window2)
		})
	}
}

// If the peer needs a grant while the device still has the one before, it gets it after that.
func TestGrantAfterGrant(t *testing.T) {
	b := newBench(t, benchConfig{server: Config{Version2: true, Credits: 4}})
	p := b.peer2()
	p.open()
	v := b.connection().framing.(*version2)
	v.mu.Lock()
	v.granting = true // as if the device had not completed a grant
	v.mu.Unlock()
	for p.sent < p.permits {
		p.send(message2(wire.TypeReplyInline, 1, nil, success(1))) // is dropped
	}
	await.Until(t, "the peer needs a grant", func() bool {
		v.mu.Lock()
		defer v.mu.Unlock()
		return v.owed && v.may == p.sent+4
	})
	v.grantSent(nil, -1)
	if q, m := p.next(); q.Type != wire.TypeGrant || p.permits != p.sent+4 {
		t.Errorf("the server sends % x", m)
	}
}

// While a client's calls occupy too much memory, a call of a stranger has the length of one message, whether it is in
// parts or not. That of a known peer may be longer.
func TestStrangersHaveShortCallsWhileFull(t *testing.T) {
	s := newModelSide(t, "server", false, 4)
	k := s.v.k
	k.receiveSize = 4096
	most := func() int { return int(s.v.mostIn(wire.TypeCallMiddle)) }
	k.calls.Store(mem.LeastCalls)
	s.full.Add(4 << 20)
	if n := most(); n != mostParts {
		t.Errorf("a known peer may send %d bytes", n)
	}
	k.responder.conn = new(rpc.Conn)
	if n := most(); n != 4096 {
		t.Errorf("a stranger may send %d bytes", n)
	}
	s.full.Add(-4 << 20)
	if n := most(); n != mostStranger {
		t.Errorf("a stranger may send %d bytes while there is room", n)
	}
}

// Parts of a reply for which no call waits get no memory, in either role: they are dropped, and so are those behind them.
func TestPartsOfRepliesForWhichNoCallWaits(t *testing.T) {
	const xid = 0x99
	parts := func() [][]byte {
		stream := opaqueReply(xid, pattern(9000))
		return [][]byte{
			part(wire.TypeReplyMiddle, xid, len(stream)-4000, stream[:4000]),
			part(wire.TypeReplyMiddle, xid, len(stream)-8000, stream[4000:8000]),
			message2(wire.TypeReplyInline, xid, nil, stream[8000:]),
		}
	}
	check := func(role string, k *connection) {
		if n := k.stats.versions.partsReceived.Load(); n != 0 {
			t.Errorf("the %s takes %d parts", role, n)
		}
		if stray, broken := k.stats.Count(faultStrayReply), k.stats.Count(faultBrokenRun); stray != 1 || broken != 2 {
			t.Errorf("the %s drops %d messages without a call, and %d behind them", role, stray, broken)
		}
	}
	b := newBench(t, benchConfig{server: Config{Version2: true}})
	p := b.peer2()
	p.open()
	for _, m := range parts() {
		p.send(m)
	}
	p.alive()
	check("server", b.connection())

	s, _ := newScript2(t, DialConfig{}, accepts2(64))
	for _, m := range parts() {
		s.sendRaw(permits(m, 64))
	}
	done := s.start(null())
	q, _ := s.next2()
	s.sendRaw(permits(message2(wire.TypeReplyInline, q.XID, nil, opaqueReply(q.XID, pattern(4))), 64))
	if r := ended(t, done); r.err != nil {
		t.Errorf("a call afterwards ends with %v", r.err)
	}
	check("client", s.client.link)
}
