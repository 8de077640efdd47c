package version2

import (
	"testing"

	iwarpwire "github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// wantHeader parses the whole header of a message of version 2, and returns its prefix.
func (p peer) wantHeader(got []byte) wire.Prefix2 {
	p.T.Helper()
	q, ok := wire.ParsePrefix2(got)
	refusal := q.JudgeType()
	switch {
	case !ok || q.Version != wire.Version2 || refusal.Refused():
	case q.Type == wire.TypeGrant:
		ok = len(got) == wire.PrefixSize
	case q.Type == wire.TypeError:
		_, ok = wire.ParseErrorBody2(got)
	case q.Type.IsConnprop():
		v := wire.DefaultProperties()
		refusal = v.Parse(got)
	case q.Type.IsMiddle():
		var h wire.Part2
		refusal = h.Parse(got)
	case q.Type.IsCall():
		var h wire.Call2
		refusal = h.Parse(got)
	default:
		var h wire.Reply2
		refusal = h.Parse(got)
	}
	if !ok || q.Version != wire.Version2 || refusal.Refused() {
		p.T.Fatalf("%x does not begin with a header of version 2: %s (V2-1)", got, refusal.Why)
	}
	return q
}

// nextMessage returns the next message of the other side, of any type.
func (p peer) nextMessage() []byte {
	p.T.Helper()
	for {
		f := p.next()
		got := append([]byte(nil), f.Payload...)
		for ; f.Op == iwarpwire.Send && !f.Last; got = append(got, f.Payload...) {
			f = p.next()
		}
		if f.Op == iwarpwire.Send {
			return got
		}
	}
}

// Each message of a responder begins with a header of version 2: replies in one message, in parts and in chunks, and errors.
// Row V2-1 of docs/conformance.md.
func TestMessagesOfAResponderHaveHeaders(t *testing.T) {
	p := settled(t)
	echo := func(xid uint32, n int) []byte {
		return rpctest.Message(xid, rpctest.ECHO, func(w *xdr.Writer) { w.Opaque(make([]byte, n)) })
	}
	seen := make(map[wire.HeaderType]bool)
	answered := func(xid uint32) {
		for last := false; !last; {
			q := p.wantHeader(p.nextMessage())
			seen[q.Type] = true
			last = q.XID == xid && !q.Type.IsMiddle()
		}
	}
	get := rpctest.Message(3, rpctest.GET, func(w *xdr.Writer) { w.Uint32(500) })
	for xid, m := range map[uint32][]byte{
		1: call(1, wire.Lists{}, echo(1, 100)),
		3: call(3, wire.Lists{Writes: [][]wire.Segment{{{Handle: 9, Length: 500}}}}, get),
		4: call(4, wire.Lists{}, nil), // a fault
		5: message(5, 14),             // a fault
	} {
		p.send(m)
		answered(xid)
	}
	p.sendParts(2, echo(2, 6001), wire.TypeCallMiddle, wire.TypeCallInline, words(0, 0, 0, 0), 3000)
	answered(2)
	replyChunk := words(0, 0, 0, 1, 1, 9, 7000, 0, 0)
	p.sendParts(6, echo(6, 6001), wire.TypeCallMiddle, wire.TypeCallInline, replyChunk, 3000)
	answered(6)
	for _, ht := range []wire.HeaderType{wire.TypeReplyMiddle, wire.TypeReplyInline, wire.TypeReplyExternal, wire.TypeError} {
		if !seen[ht] {
			t.Errorf("no %v came", ht)
		}
	}
}

// Each message of a requester begins with a header of version 2: properties, and calls in one message, in parts and in
// chunks. Row V2-1 of docs/conformance.md.
func TestMessagesOfARequesterHaveHeaders(t *testing.T) {
	r, first := newRequester(t)
	r.peer.wantHeader(first)
	r.settle()
	seen := make(map[wire.HeaderType]bool)
	for name, c := range map[string]func() error{
		"one message": func() error { return rpctest.Echo(r.client, 100) },
		"parts":       func() error { return rpctest.Echo(r.client, 6001) },
		"Read chunk":  func() error { return rpctest.Put(r.client, 50_001) },
		"Write chunk": func() error { return rpctest.Get(r.client, 50_001, true) },
		"Call chunk":  func() error { return rpctest.Echo(r.client, rpctest.MaxEcho) },
	} {
		done := make(chan error, 1)
		go func() { done <- c() }()
		q := r.peer.wantHeader(r.peer.nextMessage())
		for ; q.Type == wire.TypeGrant || q.Type.IsMiddle(); q = r.peer.wantHeader(r.peer.nextMessage()) {
			seen[q.Type] = true
		}
		seen[q.Type] = true
		r.peer.refuse(q.XID, wire.Err2System)
		if err := await.Receive(t, "the call ends", done); err == nil {
			t.Errorf("%s: the call succeeds", name)
		}
	}
	for _, ht := range []wire.HeaderType{wire.TypeCallMiddle, wire.TypeCallInline, wire.TypeCallExternal} {
		if !seen[ht] {
			t.Errorf("no %v came", ht)
		}
	}
}
