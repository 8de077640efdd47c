package rdma

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// firstCall connects a client to a scripted server with these limits for segments, makes the call x, and returns its header.
func firstCall(t *testing.T, own wire.Properties, x *rpc.Exchange) (h wire.Call2) {
	t.Helper()
	s, _ := newScript2(t, DialConfig{}, permits(properties2(9, own, wire.PropSegmentSize, wire.PropSegments), 64))
	s.start(x)
	_, m := s.next2()
	if refusal := h.Parse(m); refusal.Refused() {
		t.Fatalf("%s: % x", refusal.Why, m)
	}
	return h
}

// No segment of a call is longer than the server accepts (§5.2.3), those of the Reply chunk included. The properties in
// the server's first message hold for the first call already.
func TestSegmentsAreNoLongerThanTheServerAccepts(t *testing.T) {
	const bytes, longest = 100_000, 16 << 10
	own := wire.DefaultProperties()
	own.SegmentSize, own.Segments = longest, 256
	x := getTo(bytes, make([]byte, bytes))
	x.MaxResults = bytes // beside the sink: the call offers a Reply chunk, too
	h := firstCall(t, own, x)
	for name, c := range map[string]wire.WriteChunk{"Write chunk": h.Writes.Next(), "Reply chunk": h.Reply.WriteChunk} {
		if c.Bytes() < bytes {
			t.Errorf("the %s has %d bytes", name, c.Bytes())
		}
		for i := range c.Len() {
			if n := c.At(i).Length; n > longest {
				t.Errorf("the %s has a segment of %d bytes", name, n)
			}
		}
	}
}

// A server that accepts longer segments than the default of 1 MiB gets them.
func TestSegmentsAreAsLongAsTheServerAccepts(t *testing.T) {
	own := wire.DefaultProperties()
	own.SegmentSize = 8 << 20
	h := firstCall(t, own, getTo(4<<20, make([]byte, 4<<20)))
	if c := h.Writes.Next(); c.Len() != 1 {
		t.Errorf("a Write chunk of %d bytes has %d segments", c.Bytes(), c.Len())
	}
}

// If a reply fits into as many messages as a call takes, the client counts on parts, and offers no Reply chunk for it
// (V2-N23).
func TestNoReplyChunkForShortReplies(t *testing.T) {
	for most, offered := range map[int]bool{100: false, 4096: false, 15_000: false, 64 << 10: true} {
		x := null()
		x.MaxResults = most
		if h := firstCall(t, wire.DefaultProperties(), x); h.Reply.Present != offered {
			t.Errorf("for results of up to %d bytes, a Reply chunk is offered: %v", most, !offered)
		}
	}
}

// A call fails if its reply has an eligible result beside a chunk that could hold it, or something else than an eligible
// result in a chunk (V2-N22).
func TestWronglyReducedReplies(t *testing.T) {
	const bytes = 3000
	for name, c := range map[string]struct {
		placed int    // bytes in the chunk
		inline []byte // the result in the Payload stream, with its length
		good   bool
	}{
		"the result in its chunk":     {bytes, words(bytes), true},
		"the result beside its chunk": {0, opaqueReply(0, pattern(bytes))[24:], false},
		"no result, and data":         {bytes, words(0), false},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := newScript2(t, DialConfig{}, accepts2(64))
			done := s.start(getTo(bytes, make([]byte, bytes)))
			q, m := s.next2()
			var h wire.Call2
			if refusal := h.Parse(m); refusal.Refused() {
				t.Fatal(refusal.Why)
			}
			chunk := segmentsOf(h.Writes.Next())
			s.write(chunk, pattern(c.placed))
			chunk = used(chunk, c.placed)
			body := words(1, uint32(len(chunk)))
			for _, seg := range chunk {
				body = append(body, words(seg.Handle, seg.Length, uint32(seg.Offset>>32), uint32(seg.Offset))...)
			}
			reply := append(append(body, words(0)...), success(q.XID)...)
			s.sendRaw(permits(message2(wire.TypeReplyInline, q.XID, []uint32{}, append(reply, c.inline...)), 64))
			if r := ended(t, done); (r.err == nil) != c.good {
				t.Errorf("the call ends with %v", r.err)
			}
		})
	}
}
