package rdma

import (
	"errors"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// bothWays connects a scripted client of version 2 that takes calls of the server.
func bothWays(t *testing.T) (b *bench, p *peer2, caller rpc.Caller) {
	t.Helper()
	b, n := withBackchannel(t, benchConfig{server: Config{Version2: true}})
	p = b.peer2()
	own := wire.DefaultProperties()
	own.Reverse = wire.ReverseSimple
	p.send(properties2(7, own, wire.PropReverse))
	p.next()
	p.alive()
	return b, p, n.last().Caller()
}

// called lets the server make a call, and returns its XID and its outcome.
func (p *peer2) called(caller rpc.Caller) (xid uint32, done chan error) {
	p.t.Helper()
	done = make(chan error, 1)
	x := null()
	x.Done = func(x *rpc.Exchange) { done <- x.Err }
	caller.Start(x)
	q, m := p.next()
	if q.Type != wire.TypeCallInline {
		p.t.Fatalf("the server calls with % x", m)
	}
	return q.XID, done
}

// A server cannot repeat its calls, because only the client opens connections: a call ends with the connection, and so does
// each later one (V2-N11).
func TestCallsOfAServerEndWithTheConnection(t *testing.T) {
	_, p, caller := bothWays(t)
	_, done := p.called(caller)
	p.p.Conn().Abort(nil)
	if err := ended(t, done); !errors.Is(err, rpc.ErrCallLost) {
		t.Errorf("the call ends with %v", err)
	}
	x := null()
	x.Done = func(x *rpc.Exchange) { done <- x.Err }
	caller.Start(x)
	if err := ended(t, done); !errors.Is(err, rpc.ErrCallLost) {
		t.Errorf("a later call ends with %v", err)
	}
}

// A reply that comes between the parts of a call is refused, and the call that it answers ends, whatever the XID of the
// call in parts is: nothing else will answer it (§7.1.4). Each message makes room for one.
func TestReplyBetweenTheParts(t *testing.T) {
	for _, c := range []struct {
		name   string
		other  uint32 // what the XID of the call in parts is beyond that of the server's call
		middle bool   // the reply comes in parts, too
	}{{"the same XID", 0, false}, {"another XID", 9, false}, {"a part, the same XID", 0, true}} {
		t.Run(c.name, func(t *testing.T) {
			_, p, caller := bothWays(t)
			xid, done := p.called(caller)
			call := echo(xid+c.other, 400)
			p.send(part(wire.TypeCallMiddle, xid+c.other, len(call)-100, call[:100]))
			if c.middle {
				p.send(part(wire.TypeReplyMiddle, xid, 12, success(xid)[:12]))
			} else {
				p.send(message2(wire.TypeReplyInline, xid, nil, success(xid)))
			}
			if c.other != 0 {
				p.wantError2(xid+c.other, wire.Version2, wire.Err2InvalCont)
			}
			p.wantError2(xid, wire.Version2, wire.Err2InvalCont)
			if err := ended(t, done); err != errBrokenReply {
				t.Errorf("the call ends with %v", err)
			}
			p.send(message2(wire.TypeCallInline, xid+c.other, nil, call[100:])) // dropped: its first part is lost
			p.alive()
			receivesKept(t, p.p, DefaultCredits)
		})
	}
}

// A reply that comes between the parts of another one ends both calls. The peer gets no room for more messages by
// that.
func TestReplyBetweenThePartsOfAnother(t *testing.T) {
	s, _ := newScript2(t, DialConfig{}, accepts2(64))
	first, second := s.start(null()), s.start(null())
	q, _ := s.next2()
	r, _ := s.next2()
	s.sendRaw(permits(part(wire.TypeReplyMiddle, q.XID, 12, success(q.XID)[:12]), 64))
	s.sendRaw(permits(message2(wire.TypeReplyInline, r.XID, nil, success(r.XID)), 64))
	for _, xid := range []uint32{q.XID, r.XID} {
		e, m := s.next2()
		if body, ok := wire.ParseErrorBody2(m); !ok || e.XID != xid || body.Code != wire.Err2InvalCont {
			t.Errorf("the client answers % x", m)
		}
	}
	if r := ended(t, first); r.err != errBrokenReply {
		t.Errorf("the first call ends with %v", r.err)
	}
	if r := ended(t, second); r.err != errBrokenReply {
		t.Errorf("the second call ends with %v", r.err)
	}
	third := s.start(null())
	q, _ = s.next2()
	s.sendRaw(permits(message2(wire.TypeReplyInline, q.XID, nil, opaqueReply(q.XID, pattern(4))), 64))
	if r := ended(t, third); r.err != nil {
		t.Errorf("the third call ends with %v", r.err)
	}
	wantPromised(t, s.p, spareReceives+window2)
}

// A call of a server does not get the XID of a call of the client, even if the client numbers its calls as the server
// does, and before it: an error for that XID would end the server's call. The server keeps away from the XIDs that come
// next, too.
func TestXIDsKeepAway(t *testing.T) {
	for version := range 2 {
		b, p2, caller := bothWays(t)
		p := p2.p
		call := func(xid uint32) {
			p2.send(call2(xid, rpctest.NULL))
			p2.next()
		}
		called := func() uint32 {
			xid, done := p2.called(caller)
			p2.send(message2(wire.TypeReplyInline, xid, nil, success(xid)))
			if err := ended(t, done); err != nil {
				t.Error(err)
			}
			return xid
		}
		if version == 0 {
			var n *noted
			b, n = withBackchannel(t, benchConfig{})
			p = b.peer()
			b.alive(p)
			call = func(xid uint32) {
				b.call(p, message{xid: xid, payload: rpctest.Message(xid, rpctest.NULL, nil)})
			}
			called = func() uint32 {
				x := null()
				done := make(chan error, 1)
				x.Done = func(x *rpc.Exchange) { done <- x.Err }
				n.last().Caller().Start(x)
				h, _ := wire.ParsePrefix(p.Receive().Bytes)
				p.Send(message{xid: h.XID, credits: 1, payload: success(h.XID)}.bytes())
				if err := ended(t, done); err != nil {
					t.Error(err)
				}
				return h.XID
			}
		}
		first := called()
		if next := called(); next != first+1 {
			t.Errorf("version %d: XID %#x follows %#x though the client uses none near it", version+1, next, first)
		}
		for range 3 {
			for _, away := range []uint32{1, -nearXIDs / 2 & 0xffffffff} { // the client may yet come to the server's XIDs
				own := called() + away
				call(own)
				if xid := called(); near(xid, own) {
					t.Errorf("version %d: a call of the server has XID %#x beside %#x of the client", version+1, xid, own)
				}
			}
		}
	}
}

// INVAL_CONT for the XID of a reply that went in parts does not end the server's call with that XID, which went in one
// Send and so cannot be out of order. What the peer may send stays the same.
func TestErrorAboutAReply(t *testing.T) {
	b, p, caller := bothWays(t)
	xid, done := p.called(caller)
	v := b.connection().framing.(*version2)
	refuse := message2(wire.TypeError, xid, []uint32{uint32(wire.Err2InvalCont)}, nil)
	for range 2 {
		p.send(message2(wire.TypeCallInline, xid, nil, rpctest.Message(xid, rpctest.GET, count(9000))))
		if _, n := p.whole(xid); n < 2 {
			t.Fatalf("the reply has %d messages", n)
		}
		p.send(append([]byte(nil), refuse...))
		p.alive()
		v.mu.Lock()
		if v.calls != 1 {
			t.Errorf("%d calls of the server are counted", v.calls)
		}
		v.mu.Unlock()
	}
	p.send(message2(wire.TypeReplyInline, xid, nil, success(xid)))
	if err := ended(t, done); err != nil {
		t.Errorf("the call ends with %v", err)
	}
	// Without such a reply the error is about the call.
	xid, done = p.called(caller)
	p.send(message2(wire.TypeCallInline, xid+1, nil, rpctest.Message(xid+1, rpctest.GET, count(9000))))
	p.whole(xid + 1)
	p.send(message2(wire.TypeError, xid, []uint32{uint32(wire.Err2InvalCont)}, nil))
	var refused *Refused2Error
	if err := ended(t, done); !errors.As(err, &refused) {
		t.Errorf("the call ends with %v", err)
	}
	p.alive()
	receivesKept(t, p.p, DefaultCredits)
}
