package version2

import (
	"bytes"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// faultyParts are calls in parts that a responder refuses, on a connection whose version is settled.
var faultyParts = map[string]struct {
	messages [][]byte
	want     []answer
}{
	"another call between parts (V2-56)": {[][]byte{part(7, 40, 40), call(8, wire.Lists{}, bump(8))}, []answer{
		{7, 2, wire.ErrorBody2{Code: wire.Err2InvalCont}}, {8, 2, wire.ErrorBody2{Code: wire.Err2InvalCont}}}},
	"parts of another (V2-56, V2-81)": {[][]byte{part(7, 40, 40), part(8, 40, 40), part(7, 20, 20), call(8, wire.Lists{}, bump(8)[:40])},
		[]answer{{7, 2, wire.ErrorBody2{Code: wire.Err2InvalCont}}, {8, 2, wire.ErrorBody2{Code: wire.Err2InvalCont}}}},
	"an external call between parts (V2-56)": {[][]byte{part(7, 40, 40), external(7, 0)}, refused(wire.Err2InvalCont)},
	"a part of 3 bytes (V2-80)":              {[][]byte{part(7, 3, 40)}, refused(wire.Err2InvalCont)},
	"a last part, too short (V2-80, V2-81)":  {[][]byte{part(7, 40, 40), call(7, wire.Lists{}, bump(7)[:36])}, refused(wire.Err2InvalCont)},
	"parts of 2^32 bytes (V2-80)":            {[][]byte{part(7, 4, 0xffffffff)}, refused(wire.Err2InvalCont)},
	"nothing remains (V2-80, V2-81)":         {[][]byte{part(7, 40, 0), call(7, wire.Lists{}, bump(7))}, refused(wire.Err2InvalCont)},
}

// part returns an RDMA2_CALL_MIDDLE with size bytes of a call.
func part(xid uint32, size int, remaining uint32) []byte {
	return message(xid, wire.TypeCallMiddle, words(remaining), bump(xid)[:size])
}

// A responder refuses calls whose parts do not follow each other or do not make up the call, drops the parts that come
// later, and does not execute any of these calls. Rows V2-56, V2-80, V2-81 of docs/conformance.md.
func TestPartsThatAreRefused(t *testing.T) {
	for name, c := range faultyParts {
		t.Run(name, func(t *testing.T) {
			p := settled(t)
			for _, m := range c.messages {
				p.send(m)
			}
			p.wantErrors(c.want)
			p.wantCount(0x77, 1)
		})
	}
}

// receiveParts receives an RPC message in parts of these types, of which the first has arrived, and returns it.
func (p peer) receiveParts(first []byte, middle, last wire.HeaderType) (xid uint32, rpcMessage []byte) {
	p.T.Helper()
	s := wire.Sequence{Most: 1 << 20}
	for got := first; ; got = p.receive() {
		q, _ := wire.ParsePrefix2(got)
		if step := s.Admit(q); step != (wire.Step{}) || q.Type != middle && q.Type != last {
			p.T.Fatalf("got %x: %+v", got, step)
		}
		size, remaining := wire.PartSize, uint32(0)
		switch q.Type {
		case wire.TypeCallMiddle, wire.TypeReplyMiddle:
			var h wire.Part2
			if r := h.Parse(got); r.Refused() {
				p.T.Fatal(r.Why)
			}
			remaining = h.Remaining
		case wire.TypeCallInline:
			var h wire.Call2
			if r := h.Parse(got); r.Refused() {
				p.T.Fatal(r.Why)
			}
			size = h.Size
		default:
			var h wire.Reply2
			if r := h.Parse(got); r.Refused() {
				p.T.Fatal(r.Why)
			}
			size = h.Size
		}
		if len(got) > wire.DefaultInline2 {
			p.T.Errorf("a message of %d bytes (V2-12)", len(got))
		}
		if r := s.Add(q, len(got)-size, remaining); r.Refused() {
			p.T.Fatalf("%s: %x", r.Why, got)
		}
		rpcMessage = append(rpcMessage, got[size:]...)
		if q.Type == last {
			if r := q.JudgeMessage(rpcMessage); r.Refused() {
				p.T.Errorf("%s (V2-55, V2-60)", r.Why)
			}
			return q.XID, rpcMessage
		}
	}
}

// sendParts sends an RPC message in parts of these lengths, and the rest in the last one.
func (p peer) sendParts(xid uint32, rpcMessage []byte, middle, last wire.HeaderType, lists []byte, lengths ...int) {
	p.T.Helper()
	for _, n := range lengths {
		part := rpcMessage[:n]
		rpcMessage = rpcMessage[n:]
		p.send(message(xid, middle, words(uint32(len(rpcMessage))), part))
	}
	p.send(message(xid, last, lists, rpcMessage))
}

// A responder takes a call in parts of any length from 4 bytes, and replies in parts if the reply is longer than the
// inline threshold and no chunk is offered. Rows V2-2, V2-12, V2-60, V2-65 of docs/conformance.md.
func TestCallsAndRepliesInParts(t *testing.T) {
	p := settled(t)
	data := rpctest.Pattern(make([]byte, 6001))
	echo := rpctest.Message(7, rpctest.ECHO, func(w *xdr.Writer) { w.Opaque(data) })
	p.sendParts(7, echo, wire.TypeCallMiddle, wire.TypeCallInline, words(0, 0, 0, 0), 4, 7, 5, 4000)
	xid, reply := p.receiveParts(p.receive(), wire.TypeReplyMiddle, wire.TypeReplyInline)
	want := append(append(words(7, 1, 0, 0, 0, 0, 6001), data...), 0, 0, 0)
	if xid != 7 || !bytes.Equal(reply, want) {
		t.Errorf("XID %#x, %d bytes, want %d", xid, len(reply), len(want))
	}
	p.wantCount(0x77, 1)
}

// A client sends a call that is a little longer than the inline threshold in parts, and takes its reply in parts. Rows
// V2-2, V2-3, V2-12, V2-55 of docs/conformance.md.
func TestClientsCallsInParts(t *testing.T) {
	const length = 6001
	r, _ := newRequester(t)
	r.settle()
	done := [2]chan error{make(chan error, 1), make(chan error, 1)}
	for i := range done {
		go func() { done[i] <- rpctest.Echo(r.client, length) }()
	}
	for range done {
		xid, rpcMessage := r.peer.receiveParts(r.peer.receive(), wire.TypeCallMiddle, wire.TypeCallInline)
		reply := append(nullReply(xid), rpcMessage[len(rpcMessage)-4-length-3:]...)
		r.peer.sendParts(xid, reply, wire.TypeReplyMiddle, wire.TypeReplyInline, words(0), 5, 4000)
	}
	for i := range done {
		if err := await.Receive(t, "the call ends", done[i]); err != nil {
			t.Error(err)
		}
	}
	r.goesOn()
}

// A server that breaks the order of its parts ends the call to which they belong, and is told so for both messages. Row
// V2-61 of docs/conformance.md.
func TestClientRefusesParts(t *testing.T) {
	r, _ := newRequester(t)
	r.settle()
	done := r.null()
	xid := r.wantNull()
	r.peer.send(message(xid, wire.TypeReplyMiddle, words(16), nullReply(xid)[:8]))
	r.peer.send(inlineReply(xid + 1))
	r.peer.wantErrors([]answer{
		{xid, wire.Version2, wire.ErrorBody2{Code: wire.Err2InvalCont}}, {xid + 1, wire.Version2, wire.ErrorBody2{Code: wire.Err2InvalCont}},
	})
	if err := await.Receive(t, "the call ends", done); err == nil {
		t.Error("a call succeeds though its reply was not complete")
	}
	r.goesOn()
}
