package version2

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/rawpeer"
	iwarpwire "github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// memory is what a scripted peer exposes: the bytes of each handle, from offset 0.
type memory map[uint32][]byte

// serve answers RDMA Reads from m and takes RDMA Writes into it, until a message comes that is no grant. It returns the
// message and the handle that came with it to be invalidated, or 0.
func (p peer) serve(m memory) (message []byte, invalidated uint32) {
	p.T.Helper()
	for {
		switch f := p.next(); f.Op {
		case iwarpwire.ReadRequest:
			r := iwarpwire.ParseRead(f.Payload)
			data, ok := m[r.SourceSTag]
			if !ok || r.SourceOffset+uint64(r.Size) > uint64(len(data)) {
				p.T.Fatalf("an RDMA Read of %d bytes at %d of handle %#x", r.Size, r.SourceOffset, r.SourceSTag)
			}
			p.WriteFPDU(rawpeer.Tagged(iwarpwire.Tagged{Op: iwarpwire.ReadResponse, Last: true, STag: r.SinkSTag, Offset: r.SinkOffset},
				data[r.SourceOffset:][:r.Size]))
		case iwarpwire.Write:
			data, ok := m[f.Tagged.STag]
			if !ok || f.Tagged.Offset+uint64(len(f.Payload)) > uint64(len(data)) {
				p.T.Fatalf("an RDMA Write of %d bytes at %d of handle %#x", len(f.Payload), f.Tagged.Offset, f.Tagged.STag)
			}
			copy(data[f.Tagged.Offset:], f.Payload)
		case iwarpwire.Send, iwarpwire.SendInvalidate:
			if q, _ := wire.ParsePrefix2(f.Payload); q.Type != wire.TypeGrant {
				if !f.Last {
					p.T.Fatal("a message of several segments")
				}
				return f.Payload, f.Untagged.Invalidate
			}
		default:
			p.T.Fatalf("%v %x", f.Op, f.ULPDU)
		}
	}
}

// room is n bytes of memory with a pattern that no test writes.
func room(n int) []byte { return bytes.Repeat([]byte{0xaa}, n) }

// put returns the RPC message of a PUT whose data is in a chunk, and the position of that data.
func put(xid uint32, length int) (message []byte, position uint32) {
	m := rpctest.Message(xid, rpctest.PUT, func(w *xdr.Writer) {
		w.String("name")
		w.Uint32(uint32(length))
	})
	return m, uint32(len(m))
}

// wantPut checks the results of a PUT of data.
func (p peer) wantPut(xid uint32, message, data []byte) {
	p.T.Helper()
	want := append(words(xid, 1, 0, 0, 0, 0), words(uint32(len(data)), crc32.ChecksumIEEE(data))...)
	var h wire.Reply2
	if r := h.Parse(message); r.Refused() || h.Type != wire.TypeReplyInline || !bytes.Equal(message[h.Size:], want) {
		p.T.Fatalf("got %x, want the reply %x", message, want)
	}
}

// A result goes to its Write chunk, from the first segment on, without padding. Its count stays in the reply, which
// returns all segments with the lengths that were written, and comes when the result is there. Rows V2-23, V2-25, V2-29,
// V2-30, V2-31, V2-N9, V2-N10 of docs/conformance.md.
func TestResultInAWriteChunk(t *testing.T) {
	p := settled(t)
	m := memory{9: room(1000), 10: room(1000), 11: room(1000)}
	get := rpctest.Message(7, rpctest.GET, func(w *xdr.Writer) { w.Uint32(1001) })
	p.send(call(7, wire.Lists{Writes: [][]wire.Segment{{{Handle: 9, Length: 1000}, {Handle: 10, Length: 1000}, {Handle: 11, Length: 1000}}}}, get))
	got, _ := p.serve(m)
	want := message(7, wire.TypeReplyInline, words(1, 3, 9, 1000, 0, 0, 10, 1, 0, 0, 11, 0, 0, 0, 0), words(7, 1, 0, 0, 0, 0, 1001))
	copy(want[8:12], got[8:]) // the limit
	if !bytes.Equal(got, want) {
		t.Errorf("got\n%x, want\n%x", got, want)
	}
	data := rpctest.Pattern(make([]byte, 1001))
	if !bytes.Equal(m[9], data[:1000]) || !bytes.Equal(m[10], append(data[1000:], room(999)...)) || !bytes.Equal(m[11], room(1000)) {
		t.Error("other bytes than the result's were written (V2-25)")
	}
}

// If two chunks are offered, the error names the first one that is too short. Row V2-97 of docs/conformance.md.
func TestSecondWriteChunkTooShort(t *testing.T) {
	p := settled(t)
	pair := rpctest.Message(7, rpctest.PAIR, func(w *xdr.Writer) { w.Bool(true); w.Bool(true); w.Uint32(500) })
	p.send(call(7, wire.Lists{Writes: [][]wire.Segment{{{Handle: 9, Length: 500}}, {{Handle: 10, Length: 499}}}}, pair))
	got, _ := p.serve(memory{9: room(500)})
	q, _ := wire.ParsePrefix2(got)
	if body, _ := wire.ParseErrorBody2(got); q.Type != wire.TypeError || body != (wire.ErrorBody2{Code: wire.Err2WriteResource, Index: 2, Needed: 500}) {
		t.Errorf("got %+v %+v", q, body)
	}
}

// A reply that is longer than the inline threshold goes to the Reply chunk, with its padding. Rows V2-26, V2-58, V2-59,
// V2-64 of docs/conformance.md.
func TestReplyInAReplyChunk(t *testing.T) {
	p := settled(t)
	m := memory{9: room(4000), 10: room(70000)}
	wide := rpctest.Message(7, rpctest.WIDE, func(w *xdr.Writer) { w.Uint32(10001) })
	p.send(call(7, wire.Lists{Reply: []wire.Segment{{Handle: 9, Length: 4000}, {Handle: 10, Length: 70000}}}, wide))
	got, _ := p.serve(m)
	const length = 6*4 + 4 + 10004
	want := message(7, wire.TypeReplyExternal, words(0, 1, 2, 9, 4000, 0, 0, 10, length-4000, 0, 0))
	copy(want[8:12], got[8:])
	if !bytes.Equal(got, want) {
		t.Errorf("got\n%x, want\n%x", got, want)
	}
	reply := append(m[9], m[10]...)
	data := rpctest.Pattern(make([]byte, 10001))
	if !bytes.Equal(reply[:length], append(append(words(7, 1, 0, 0, 0, 0, 10001), data...), 0, 0, 0)) || !bytes.Equal(reply[length:], room(len(reply)-length)) {
		t.Errorf("the Reply chunk has %x", reply[:64])
	}
}

// A result goes to its Write chunk even if the call offers a Reply chunk that could hold it; then the rest of the reply is
// short enough to come inline. Row V2-N16 of docs/conformance.md.
func TestResultGoesToItsChunkFirst(t *testing.T) {
	p := settled(t)
	const length = 10_001
	m := memory{9: room(12_000), 10: room(20_000)}
	get := rpctest.Message(7, rpctest.GET, func(w *xdr.Writer) { w.Uint32(length) })
	p.send(call(7, wire.Lists{Writes: [][]wire.Segment{{{Handle: 9, Length: 12_000}}}, Reply: []wire.Segment{{Handle: 10, Length: 20_000}}}, get))
	got, _ := p.serve(m)
	want := message(7, wire.TypeReplyInline, words(1, 1, 9, length, 0, 0, 0), words(7, 1, 0, 0, 0, 0, length))
	copy(want[8:12], got[8:]) // the limit
	if !bytes.Equal(got, want) {
		t.Errorf("got\n%x, want\n%x", got, want)
	}
	if !bytes.Equal(m[9][:length], rpctest.Pattern(make([]byte, length))) || !bytes.Equal(m[10], room(20_000)) {
		t.Error("the result is not in its Write chunk, or the Reply chunk was used")
	}
}

// A reply that fits neither in the messages that a reply may take nor in the Reply chunk is refused, with the length that
// the Reply chunk needs: before the call is executed if it may be executed only once. With a chunk of that length the
// same call succeeds. Rows V2-100, V2-101 of docs/conformance.md.
func TestReplyThatFitsNowhere(t *testing.T) {
	p := settled(t)
	for name, c := range map[string]struct {
		procedure uint32
		length    int
	}{
		"a call that changes something": {rpctest.WIDE, rpctest.MaxWide},
		"another call":                  {rpctest.GET, 100_001},
	} {
		rpcMessage := rpctest.Message(7, c.procedure, func(w *xdr.Writer) { w.Uint32(uint32(c.length)) })
		needed := uint32(6*4 + 4 + (c.length+3)&^3)
		m := memory{9: room(int(needed))}
		p.send(call(7, wire.Lists{Reply: []wire.Segment{{Handle: 9, Length: needed - 1}}}, rpcMessage))
		p.wantError(7, wire.Version2, wire.ErrorBody2{Code: wire.Err2ReplyResource, Needed: needed})
		p.send(call(7, wire.Lists{Reply: []wire.Segment{{Handle: 9, Length: needed}}}, rpcMessage))
		got, _ := p.serve(m)
		if q, _ := wire.ParsePrefix2(got); q.Type != wire.TypeReplyExternal || !bytes.Equal(m[9][28:28+c.length], rpctest.Pattern(make([]byte, c.length))) {
			t.Errorf("%s: with the length of the error, the answer is %x", name, got)
		}
	}
}

// An argument is read from a Read chunk of several segments, which has no padding. Rows V2-19, V2-28, V2-30, V2-N8 of
// docs/conformance.md.
func TestArgumentInAReadChunk(t *testing.T) {
	p := settled(t)
	data := rpctest.Pattern(make([]byte, 5001))
	rpcMessage, position := put(7, len(data))
	p.send(call(7, wire.Lists{Reads: []wire.ReadSegment{
		{Position: position, Segment: wire.Segment{Handle: 9, Length: 4097}}, {Position: position, Segment: wire.Segment{Handle: 10, Length: 904}},
	}}, rpcMessage))
	got, _ := p.serve(memory{9: data[:4097], 10: data[4097:]})
	p.wantPut(7, got, data)
}

// A call is read from its Call chunk, and its argument from a chunk of its own. The RPC message there must have the
// header's XID. Rows V2-26, V2-63, V2-82 of docs/conformance.md.
func TestCallInACallChunk(t *testing.T) {
	p := settled(t)
	data := rpctest.Pattern(make([]byte, 5001))
	rpcMessage, position := put(7, len(data))
	for _, xid := range []uint32{7, 8} {
		l := wire.Lists{Reads: []wire.ReadSegment{
			{Segment: wire.Segment{Handle: 1, Length: uint32(len(rpcMessage))}}, {Position: position, Segment: wire.Segment{Handle: 9, Length: 5001}},
		}}
		b := make([]byte, l.Size2(wire.TypeCallExternal))
		l.Put2(b, wire.Prefix2{XID: xid, Version: wire.Version2, Limit: limit, Type: wire.TypeCallExternal}, 0)
		p.send(b)
		got, _ := p.serve(memory{1: rpcMessage, 9: data})
		if xid == 7 {
			p.wantPut(7, got, data)
			continue
		}
		q, _ := wire.ParsePrefix2(got)
		if body, _ := wire.ParseErrorBody2(got); q.Type != wire.TypeError || q.XID != 8 || body.Code != wire.Err2BadXDR {
			t.Errorf("got %x, want BAD_XDR (V2-82)", got)
		}
	}
	p.wantCount(0x77, 1)
}

// A message that carries no RPC message invalidates nothing: neither the error for a call that named a handle for that,
// nor properties. Row V2-N15 of docs/conformance.md.
func TestErrorsInvalidateNothing(t *testing.T) {
	p := newResponder(t, rdma.Config{Version2: true, RemoteInvalidation: true}).dial(t)
	p.send(final(0x5e7))
	p.wantFinal() // it takes a plain Send alone
	get := rpctest.Message(7, rpctest.GET, func(w *xdr.Writer) { w.Uint32(100) })
	m := call(7, wire.Lists{Writes: [][]wire.Segment{{{Handle: 9, Length: 60}}}}, get)
	binary.BigEndian.PutUint32(m[wire.PrefixSize:], 9)
	p.send(m)
	got, invalidated := p.serve(memory{9: room(60)})
	if q, _ := wire.ParsePrefix2(got); q.Type != wire.TypeError || invalidated != 0 {
		t.Errorf("%x comes with handle %d", got, invalidated)
	}
}

// A reply invalidates the handle that its call named for that, and no other one; none if the call's lists do not have
// it. Rows V2-62, V2-N14 of docs/conformance.md.
func TestInvalidation(t *testing.T) {
	for name, c := range map[string]struct{ named, want uint32 }{
		"the second of two":  {10, 10},
		"none":               {0, 0},
		"that of no segment": {12, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := newResponder(t, rdma.Config{Version2: true, RemoteInvalidation: true}).dial(t)
			p.send(final(0x5e7))
			p.wantFinal()
			get := rpctest.Message(7, rpctest.GET, func(w *xdr.Writer) { w.Uint32(100) })
			m := call(7, wire.Lists{Writes: [][]wire.Segment{{{Handle: 9, Length: 60}, {Handle: 10, Length: 60}}}}, get)
			binary.BigEndian.PutUint32(m[wire.PrefixSize:], c.named)
			p.send(m)
			if got, invalidated := p.serve(memory{9: room(60), 10: room(60)}); invalidated != c.want {
				t.Errorf("%x comes with handle %d, want %d", got, invalidated, c.want)
			}
		})
	}
}
