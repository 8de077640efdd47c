package version2

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/rawpeer"
	iwarpwire "github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// wantCall receives a call of this type, and returns its header and its message.
func (r *requester) wantCall(ht wire.HeaderType) (h wire.Call2, got []byte) {
	r.t.Helper()
	got = r.peer.receive()
	if refusal := h.Parse(got); refusal.Refused() || h.Type != ht || h.Version != wire.Version2 {
		r.t.Fatalf("got %x, want an %v: %v", got, ht, refusal.Why)
	}
	if _, ok := h.Invalidates(); h.InvalidateHandle != 0 && !ok {
		r.t.Errorf("handle %#x to invalidate is not in the lists (V2-N14)", h.InvalidateHandle)
	}
	return h, got
}

// read reads the memory of all segments by RDMA Read, in their order.
func (p peer) read(segments ...wire.Segment) (data []byte) {
	p.T.Helper()
	for _, s := range segments {
		p.WriteFPDU(p.ReadRequest(iwarpwire.Read{SinkSTag: 1, Size: s.Length, SourceSTag: s.Handle, SourceOffset: s.Offset}))
		for last := false; !last; {
			f := p.next()
			if f.Op != iwarpwire.ReadResponse {
				p.T.Fatalf("%v %x where a Read Response was due", f.Op, f.ULPDU)
			}
			data, last = append(data, f.Payload...), f.Last
		}
	}
	return data
}

// write writes data to the segments by RDMA Write, and returns the chunk as a reply returns it.
func (p peer) write(chunk wire.WriteChunk, data []byte) (returned []byte) {
	p.T.Helper()
	returned = words(uint32(chunk.Len()))
	for i := range chunk.Len() {
		s := chunk.At(i)
		part := data[:min(len(data), int(s.Length))]
		data = data[len(part):]
		returned = append(returned, words(s.Handle, uint32(len(part)), uint32(s.Offset>>32), uint32(s.Offset))...)
		for len(part) > 0 {
			n := min(len(part), 1400)
			p.WriteFPDU(rawpeer.Tagged(iwarpwire.Tagged{Op: iwarpwire.Write, Last: n == len(part), STag: s.Handle, Offset: s.Offset}, part[:n]))
			part, s.Offset = part[n:], s.Offset+uint64(n)
		}
	}
	return returned
}

func readSegments(l wire.ReadList) (all []wire.Segment) {
	for i := range l.Len() {
		all = append(all, l.At(i).Segment)
	}
	return all
}

// A long argument is in a Read chunk of its own: its position is where it would be in the message, its count stays there,
// and its padding is nowhere. Rows V2-19, V2-20, V2-28, V2-29, V2-30, V2-31, V2-57 of docs/conformance.md.
func TestClientsArgumentInAReadChunk(t *testing.T) {
	const length = 50_001
	r, _ := newRequester(t)
	r.settle()
	done := make(chan error, 1)
	go func() { done <- rpctest.Put(r.client, length) }()
	h, got := r.wantCall(wire.TypeCallInline)
	payload := got[h.Size:]
	if h.Reads.Len() == 0 || len(payload)%4 != 0 || binary.BigEndian.Uint32(payload[len(payload)-4:]) != length {
		t.Fatalf("%d Read segments, payload %x", h.Reads.Len(), payload)
	}
	for i := range h.Reads.Len() {
		if position := h.Reads.At(i).Position; position != uint32(len(payload)) {
			t.Errorf("segment %d has position %d, and the payload %d bytes before the data (V2-19)", i, position, len(payload))
		}
	}
	data := r.peer.read(readSegments(h.Reads)...)
	if !bytes.Equal(data, rpctest.Pattern(make([]byte, length))) {
		t.Errorf("%d bytes in the Read chunk, want the %d of the argument (V2-30, V2-31)", len(data), length)
	}
	r.peer.send(message(h.XID, wire.TypeReplyInline, words(0), nullReply(h.XID), words(length, crc32.ChecksumIEEE(data))))
	if err := await.Receive(t, "the call ends", done); err != nil {
		t.Error(err)
	}
	r.goesOn()
}

// A Write chunk has room for the longest result, and none for its padding. The result is what was written there. Rows
// V2-22, V2-24 of docs/conformance.md.
func TestClientsResultInAWriteChunk(t *testing.T) {
	const length = 50_001
	r, _ := newRequester(t)
	r.settle()
	done := make(chan error, 1)
	go func() { done <- rpctest.Get(r.client, length, true) }()
	h, _ := r.wantCall(wire.TypeCallInline)
	if h.Writes.Len() != 1 {
		t.Fatalf("%d Write chunks", h.Writes.Len())
	}
	chunk := h.Writes.Next()
	if chunk.Bytes() != length {
		t.Errorf("a Write chunk of %d bytes for a result of %d (V2-22, V2-24)", chunk.Bytes(), length)
	}
	returned := r.peer.write(chunk, rpctest.Pattern(make([]byte, length)))
	r.peer.send(message(h.XID, wire.TypeReplyInline, words(1), returned, words(0), nullReply(h.XID), words(length)))
	if err := await.Receive(t, "the call ends", done); err != nil {
		t.Error(err)
	}
	r.goesOn()
}

// A call that is much longer than the inline threshold, and has no eligible item, is in a Call chunk. Its reply comes in
// the Reply chunk. Rows V2-26, V2-54, V2-63 of docs/conformance.md.
func TestClientsCallInACallChunk(t *testing.T) {
	const length = rpctest.MaxEcho - 3
	r, _ := newRequester(t)
	r.settle()
	done := make(chan error, 1)
	go func() { done <- rpctest.Echo(r.client, length) }()
	h, _ := r.wantCall(wire.TypeCallExternal)
	if h.Reads.Len() != 0 || !h.Reply.Present {
		t.Fatalf("%d segments in the Read list, a Reply chunk: %v", h.Reads.Len(), h.Reply.Present)
	}
	rpcMessage := r.peer.read(readSegments(h.Body)...)
	if refusal := h.JudgeMessage(rpcMessage); refusal.Refused() || len(rpcMessage)%4 != 0 {
		t.Errorf("%d bytes in the Call chunk: %s (V2-26, V2-54)", len(rpcMessage), refusal.Why)
	}
	echo := rpcMessage[len(rpcMessage)-4-length-3:]
	returned := r.peer.write(h.Reply.WriteChunk, append(nullReply(h.XID), echo...))
	r.peer.send(message(h.XID, wire.TypeReplyExternal, words(0, 1), returned))
	if err := await.Receive(t, "the call ends", done); err != nil {
		t.Error(err)
	}
	r.goesOn()
}
