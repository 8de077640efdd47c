package version2

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// Two results are optional: each has a word that says whether it is present, and that word stays in the reply. A result that
// is present goes to the next Write chunk, and its count stays. Rows V2-34, V2-35 of docs/conformance.md.
func TestOptionalResults(t *testing.T) {
	const n = 333
	for name, there := range map[string][2]bool{
		"both": {true, true}, "the first": {true, false}, "the second": {false, true}, "none": {false, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := settled(t)
			m := [2][]byte{room(400), room(400)}
			pair := rpctest.Message(7, rpctest.PAIR, func(w *xdr.Writer) { w.Bool(there[0]); w.Bool(there[1]); w.Uint32(n) })
			p.send(call(7, wire.Lists{Writes: [][]wire.Segment{{{Handle: 9, Length: 400}}, {{Handle: 10, Length: 400}}}}, pair))
			got, _ := p.serve(memory{9: m[0], 10: m[1]})
			payload, lengths := words(7, 1, 0, 0, 0, 0), [2]uint32{}
			chunk := 0
			for _, present := range there {
				if !present {
					payload = append(payload, words(0)...)
					continue
				}
				payload = append(payload, words(1, n)...)
				lengths[chunk] = n
				chunk++
			}
			want := message(7, wire.TypeReplyInline, words(1, 1, 9, lengths[0], 0, 0, 1, 1, 10, lengths[1], 0, 0, 0), payload)
			copy(want[8:12], got[8:]) // the limit
			if !bytes.Equal(got, want) {
				t.Errorf("got\n%x, want\n%x (V2-34)", got, want)
			}
			for i, b := range m {
				data := rpctest.Pattern(make([]byte, lengths[i]))
				if !bytes.Equal(b, append(data, room(400-len(data))...)) {
					t.Errorf("chunk %d holds something else (V2-35)", i)
				}
			}
		})
	}
}

// A result that is not eligible stays in the reply, although a Write chunk is offered that would hold it. Row V2-18 of
// docs/conformance.md.
func TestIneligibleResultStays(t *testing.T) {
	const n = 1001
	p := settled(t)
	m := memory{9: room(2000)}
	echo := rpctest.Message(7, rpctest.ECHO, func(w *xdr.Writer) { w.Opaque(rpctest.Pattern(make([]byte, n))) })
	p.send(call(7, wire.Lists{Writes: [][]wire.Segment{{{Handle: 9, Length: 2000}}}}, echo))
	got, _ := p.serve(m)
	want := message(7, wire.TypeReplyInline, words(1, 1, 9, 0, 0, 0, 0), words(7, 1, 0, 0, 0, 0, n), rpctest.Pattern(make([]byte, n)), make([]byte, 3))
	copy(want[8:12], got[8:])
	if !bytes.Equal(got, want) || !bytes.Equal(m[9], room(2000)) {
		t.Errorf("got\n%x, want\n%x", got, want)
	}
}

// Of two arguments, only the one that is eligible goes to a Read chunk. Row V2-18 of docs/conformance.md.
func TestClientsIneligibleArgumentStays(t *testing.T) {
	const length = 5000
	name, data := rpctest.Pattern(make([]byte, 200)), rpctest.Pattern(make([]byte, length))
	r, _ := newRequester(t)
	r.settle()
	x := rpctest.NewExchange(rpctest.PUT, func(w *xdr.Writer) {
		w.Payload(name, false, nil)
		w.Payload(data, true, nil)
	})
	done := make(chan error, 1)
	x.Done = func(x *rpc.Exchange) { done <- x.Err }
	r.client.Start(x)
	h, got := r.wantCall(wire.TypeCallInline)
	payload := got[h.Size:]
	want := append(append(words(uint32(len(name))), name...), words(length)...)
	if !bytes.HasSuffix(payload, want) {
		t.Errorf("the payload is %x, want it to end with %x", payload, want)
	}
	for i := range h.Reads.Len() {
		if position := h.Reads.At(i).Position; position != uint32(len(payload)) {
			t.Errorf("segment %d has position %d, and %d bytes are before the data", i, position, len(payload))
		}
	}
	if read := r.peer.read(readSegments(h.Reads)...); !bytes.Equal(read, data) {
		t.Errorf("%d bytes in the Read chunk, want %d", len(read), length)
	}
	r.peer.send(message(h.XID, wire.TypeReplyInline, words(0), nullReply(h.XID), words(length, crc32.ChecksumIEEE(data))))
	if err := await.Receive(t, "the call ends", done); err != nil {
		t.Error(err)
	}
}

// A call has an array of two elements, each of which has an opaque, that is, an array of bytes. Each opaque is in a Read
// chunk of its own. The counts of all arrays, and what else the elements have, stay in the Payload stream; the bytes are in
// the chunks, all of them. Rows V2-27, V2-32, V2-33 of docs/conformance.md.
func TestClientsArgumentsInChunksOfTheirOwn(t *testing.T) {
	lengths := [2]int{30_001, 20_002}
	var ops []rpctest.Op
	for _, n := range lengths {
		ops = append(ops, rpctest.Op{Code: rpctest.OpWrite, Data: rpctest.Pattern(make([]byte, n))})
	}
	r, _ := newRequester(t)
	r.settle()
	x := rpctest.NewExchange(rpctest.COMPOUND, func(w *xdr.Writer) { rpctest.PutCompound(w, ops) })
	done := make(chan error, 1)
	x.Done = func(x *rpc.Exchange) { done <- x.Err }
	r.client.Start(x)
	h, got := r.wantCall(wire.TypeCallInline)
	payload := got[h.Size:]
	const before = 10 * 4 // the call's header
	want := words(2, rpctest.OpWrite, 0, uint32(lengths[0]), rpctest.OpWrite, 0, uint32(lengths[1]))
	if len(payload) < before || !bytes.Equal(payload[before:], want) {
		t.Fatalf("the payload is %x, want it to end with %x (V2-32)", payload, want)
	}
	first := uint32(before + 4*4)
	positions := []uint32{first, first + uint32(lengths[0]+3) + 3*4}
	chunks := make(map[uint32][]wire.Segment)
	for i := range h.Reads.Len() {
		s := h.Reads.At(i)
		chunks[s.Position] = append(chunks[s.Position], s.Segment)
	}
	results := words(2)
	for i, position := range positions {
		data := r.peer.read(chunks[position]...)
		if !bytes.Equal(data, ops[i].Data) {
			t.Errorf("the chunk at %d has %d bytes, want the %d of item %d (V2-27, V2-33)", position, len(data), lengths[i], i)
		}
		results = append(results, words(rpctest.OpWrite, uint32(len(data)), crc32.ChecksumIEEE(data))...)
	}
	if len(chunks) != len(positions) {
		t.Errorf("%d chunks, want one for each item (V2-27)", len(chunks))
	}
	r.peer.send(message(h.XID, wire.TypeReplyInline, words(0), nullReply(h.XID), results))
	if err := await.Receive(t, "the call ends", done); err != nil {
		t.Error(err)
	}
	r.goesOn()
}

// The same array, as a responder reads it. If one chunk has the bytes of both elements, the call is refused. Rows V2-27,
// V2-32, V2-33 of docs/conformance.md.
func TestArgumentsInChunksOfTheirOwn(t *testing.T) {
	items := [2][]byte{rpctest.Pattern(make([]byte, 1001)), rpctest.Pattern(make([]byte, 502))}
	rpcMessage := rpctest.Message(7, rpctest.COMPOUND, func(w *xdr.Writer) {
		for _, n := range []uint32{2, rpctest.OpWrite, 0, 1001, rpctest.OpWrite, 0, 502} {
			w.Uint32(n)
		}
	})
	const first = 10*4 + 4*4
	const second = first + 1004 + 3*4
	segment := func(handle uint32, n int) wire.Segment { return wire.Segment{Handle: handle, Length: uint32(n)} }

	p := settled(t)
	m := memory{9: items[0], 10: items[1]}
	p.send(call(7, wire.Lists{Reads: []wire.ReadSegment{
		{Position: first, Segment: segment(9, 1001)}, {Position: second, Segment: segment(10, 502)},
	}}, rpcMessage))
	got, _ := p.serve(m)
	want := words(7, 1, 0, 0, 0, 0, 2)
	for _, b := range items {
		want = append(want, words(rpctest.OpWrite, uint32(len(b)), crc32.ChecksumIEEE(b))...)
	}
	var h wire.Reply2
	if r := h.Parse(got); r.Refused() || !bytes.Equal(got[h.Size:], want) {
		t.Errorf("got %x, want the reply %x", got, want)
	}

	binary.BigEndian.PutUint32(rpcMessage, 8)
	p.send(call(8, wire.Lists{Reads: []wire.ReadSegment{
		{Position: first, Segment: segment(9, 1001)}, {Position: first, Segment: segment(10, 502)},
	}}, rpcMessage))
	got, _ = p.serve(m)
	if r := h.Parse(got); r.Refused() || !bytes.Equal(got[h.Size:], words(8, 1, 0, 0, 0, uint32(rpc.GarbageArgs.Stat))) {
		t.Errorf("got %x, want GARBAGE_ARGS (V2-27)", got)
	}
}
