package rdma

import (
	"errors"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// A server makes no call before the client has announced that it takes calls. Then its calls have version 2,
// and the XID of the RPC message (V2-37, V2-38, V2-41).
func TestCallsOfAServer(t *testing.T) {
	for _, c := range []struct {
		reverse wire.Reverse
		want    bool
	}{{wire.ReverseNone, false}, {wire.ReverseSimple, true}} {
		b, n := withBackchannel(t, benchConfig{server: Config{Version2: true}})
		p := b.peer2()
		own := wire.DefaultProperties()
		own.Reverse = c.reverse
		p.send(properties2(7, own, wire.PropReverse))
		p.next()
		p.alive()
		x := null()
		done := make(chan error, 1)
		caller := n.last().Caller()
		x.Done = nil
		go func() { done <- do(t, caller, x, nil) }()
		if !c.want {
			await.Until(t, "the call waits", func() bool {
				q := b.connection().requester
				q.mu.Lock()
				defer q.mu.Unlock()
				return q.queue.First != nil
			})
			p.alive() // the next message is its reply, and not a call
			b.connection().device.Abort(nil)
			if err := ended(t, done); err == nil {
				t.Error("the call succeeds")
			}
			continue
		}
		q, m := p.next()
		var h wire.Call2
		if q.Type != wire.TypeCallInline || h.Parse(m).Refused() || q.JudgeMessage(m[h.Size:]).Refused() {
			t.Fatalf("the server calls with % x", m)
		}
		p.send(message2(wire.TypeReplyInline, q.XID, nil, success(q.XID)))
		if err := ended(t, done); err != nil {
			t.Error(err)
		}
		p.alive()
	}
}

// A client refuses the header type of a server's call. That call fails, and the server makes no other one on the
// connection. It goes on to serve the client's calls. Row V2-79 of docs/conformance.md.
func TestRefusedCallsOfAServer(t *testing.T) {
	b, n := withBackchannel(t, benchConfig{server: Config{Version2: true}})
	p := b.peer2()
	own := wire.DefaultProperties()
	own.Reverse = wire.ReverseSimple
	p.send(properties2(7, own, wire.PropReverse))
	p.next()
	p.alive()
	call := func() <-chan error {
		done := make(chan error, 1)
		go func() { done <- do(t, n.last().Caller(), null(), nil) }()
		return done
	}
	done := call()
	q, _ := p.next()
	p.send(message2(wire.TypeError, q.XID, []uint32{uint32(wire.Err2InvalHtype)}, nil))
	if e, ok := errors.AsType[*Refused2Error](ended(t, done)); !ok || e.Code != wire.Err2InvalHtype {
		t.Errorf("the call ends with %v", e)
	}
	done = call()
	await.Until(t, "the next call waits", func() bool {
		q := b.connection().requester
		q.mu.Lock()
		defer q.mu.Unlock()
		return q.queue.First != nil || q.pending.n > 0
	})
	p.alive() // the next message is its reply, and not a call
	b.connection().device.Abort(nil)
	if err := ended(t, done); err == nil {
		t.Error("the next call succeeds")
	}
}

// A client answers calls of the server in version 2, and refuses those that offer chunks (V2-39, V2-40, V2-42). It writes
// to no Write chunk, and its replies do not come in parts, so it refuses Write chunks with REPLY_RESOURCE (V2-93). It
// says the same of a reply that is longer than a Send, with the length (V2-100, V2-101).
func TestCallsToAClient(t *testing.T) {
	back, program := callbacks(t)
	s, first := newScript2(t, DialConfig{Callbacks: back, callbackCredits: 5}, accepts2(64))
	var own wire.Properties
	if own = wire.DefaultProperties(); own.Parse(first).Refused() || own.Reverse != wire.ReverseSimple {
		t.Errorf("the client announces support %d", own.Reverse)
	}
	s.sendRaw(permits(call2(5, rpctest.NULL), 64))
	q, m := s.next2()
	if q.Type != wire.TypeReplyInline || q.XID != 5 {
		t.Fatalf("the client answers % x", m)
	}
	results(t, 5, m[wire.MinReplyInline:])
	for _, c := range []struct {
		lists []uint32
		code  wire.ErrorCode2
	}{
		{join([]uint32{0}, readSegments(40), []uint32{0, 0}), wire.Err2ReadChunks},
		{join([]uint32{0, 0, 1}, chunkOf(1), []uint32{0, 0}), wire.Err2ReplyResource},
		{join([]uint32{0, 0, 0, 1}, chunkOf(1)), wire.Err2ReplyResource},
	} {
		s.sendRaw(permits(message2(wire.TypeCallInline, 6, c.lists, rpctest.Message(6, rpctest.NULL, nil)), 64))
		q, m := s.next2()
		if e, ok := wire.ParseErrorBody2(m); !ok || q.Type != wire.TypeError || q.XID != 6 || e.Code != c.code || e.Max != 0 {
			t.Errorf("the client answers % x, want %v", m, c.code)
		}
	}
	const length = 8000
	s.sendRaw(permits(message2(wire.TypeCallInline, 7, nil, rpctest.Message(7, rpctest.GET, count(length))), 64))
	q, m = s.next2()
	if e, ok := wire.ParseErrorBody2(m); !ok || q.XID != 7 || e != (wire.ErrorBody2{Code: wire.Err2ReplyResource, Needed: 28 + length}) {
		t.Errorf("the client answers % x to a call with a long reply", m)
	}
	if n := program.Served[rpctest.NULL].Load(); n != 1 {
		t.Errorf("%d calls were served", n)
	}
}

// Each RDMA2_ERROR ends its call with an error that says which one it is, except one with an unknown code (V2-70, V2-90, V2-92,
// V2-95, V2-99, V2-102, V2-106). The client does not
// send such a call again.
func TestErrorsEndCallsOfVersion2(t *testing.T) {
	s, _ := newScript2(t, DialConfig{}, accepts2(64))
	for _, body := range []wire.ErrorBody2{
		{Code: wire.Err2BadXDR}, {Code: wire.Err2ReadChunks}, {Code: wire.Err2WriteChunks}, {Code: wire.Err2Segments},
		{Code: wire.Err2WriteResource}, {Code: wire.Err2ReplyResource}, {Code: wire.Err2InvalCont}, {Code: wire.Err2System},
	} {
		done := s.start(null())
		q, _ := s.next2()
		s.sendRaw(permits(message2(wire.TypeError, q.XID, []uint32{57}, nil), 64))
		m := make([]byte, wire.MaxError2Size)
		s.sendRaw(m[:body.Put(m, wire.Prefix2{XID: q.XID, Version: wire.Version2, Limit: 64})])
		r := ended(t, done)
		if e, ok := r.err.(*Refused2Error); !ok || e.Code != body.Code {
			t.Errorf("%v ends the call with %v", body.Code, r.err)
		}
	}
	// A reply that cannot be used ends its call as well (V2-59).
	for name, m := range map[string][]byte{
		"half a header":                      message2(wire.TypeReplyInline, 0, []uint32{1}, nil),
		"a Write chunk that was not offered": message2(wire.TypeReplyInline, 0, append([]uint32{1}, append(chunkOf(1), 0)...), success(0)),
		"another XID":                        message2(wire.TypeReplyInline, 0, nil, success(0)),
		"external without a Reply chunk":     message2(wire.TypeReplyExternal, 0, []uint32{0, 0}, nil),
	} {
		done := s.start(null())
		q, _ := s.next2()
		p, _ := wire.ParsePrefix2(m)
		p.XID, p.Limit = q.XID, 64
		p.Put(m)
		s.sendRaw(m)
		if r := ended(t, done); r.err != errBrokenReply {
			t.Errorf("%s ends the call with %v", name, r.err)
		}
	}
	wantPromised(t, s.p, spareReceives+window2) // each message has made room for one
}
