package rdma

import (
	"bytes"
	"errors"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/rdmatest"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// putOf returns a PUT of data.
func putOf(data []byte) *rpc.Exchange {
	return exchangeFor(rpctest.PUT, func(w *xdr.Writer) {
		w.String("name")
		w.Payload(data, true, nil)
	})
}

// pull reads the memory that a call exposes at a position.
func (s *script) pull(h *wire.Header, position uint32) []byte {
	s.t.Helper()
	var all []byte
	for i := range h.Reads.Len() {
		if r := h.Reads.At(i); r.Position == position {
			b, err := s.p.Read(remote(r.Segment, 0), int(r.Length))
			if err != nil {
				s.t.Fatal(err)
			}
			all = append(all, b...)
		}
	}
	return all
}

// refuse ends a call whose reply does not matter to the test, by an RDMA_ERROR.
func (s *script) refuse(h *wire.Header) {
	s.t.Helper()
	if speaking2 {
		s.sendRaw(permits(message2(wire.TypeError, h.XID, []uint32{uint32(wire.Err2BadXDR)}, nil), much2))
		return
	}
	s.p.Send(words(h.XID, 1, 8, uint32(wire.ProcError), uint32(wire.ErrChunk)))
}

// A call is Short as long as it fits a Send, header included. A longer one has its eligible item
// reduced; without such an item the whole Payload goes by RDMA. No Send is longer than the
// threshold. A chunk is as long as its item. Rows V1-24, V1-46, A-7, V1-40 and V1-42 of
// docs/conformance.md.
func TestCallForms(t *testing.T) {
	for _, threshold := range []int{1024, 4096} {
		s := newScript(t, DialConfig{InlineSend: 8192}, private(false, 4096, threshold))
		const fixed = 28 + 40 + 4 // header, RPC header, count
		for _, n := range []int{0, 1, threshold - fixed - 12 - 5, threshold - fixed - 12, threshold - fixed - 11, threshold - fixed - 8, threshold - fixed - 7, threshold, 50_001} {
			data := pattern(n)
			s.start(putOf(data))
			h, payload := s.next()
			short := fixed+8+padded(n) <= threshold // the name takes 8 bytes
			switch {
			case short && (h.Proc != wire.ProcMsg || h.Reads.Len() != 0 || !bytes.HasSuffix(payload, append(data, padding[:xdr.Pad(n)]...))):
				t.Errorf("T=%d: %d bytes: %v with %d segments, not Short", threshold, n, h.Proc, h.Reads.Len())
			case !short:
				// Item and padding are gone, the count stays (V1-34, V1-36, V1-37).
				if h.Proc != wire.ProcMsg || h.Reads.Len() != 1 || len(payload) != 40+8+4 || int(h.Reads.At(0).Position) != len(payload) {
					t.Errorf("T=%d: %d bytes: %v, %d segments, %d bytes of Payload: not Chunked", threshold, n, h.Proc, h.Reads.Len(), len(payload))
				}
				if got := s.pull(&h, uint32(len(payload))); !bytes.Equal(got, data) {
					t.Errorf("the Read chunk of %d bytes holds something else", n)
				}
			}
			s.refuse(&h)

			// ECHO has no eligible item.
			x := exchangeFor(rpctest.ECHO, func(w *xdr.Writer) { w.Opaque(data) })
			x.MaxArgs, x.MaxResults = n+8, 4
			s.start(x)
			h, payload = s.next()
			if fits := fixed+padded(n) <= threshold; fits != (h.Proc == wire.ProcMsg) {
				t.Errorf("T=%d: ECHO of %d bytes goes as %v", threshold, n, h.Proc)
			} else if !fits {
				// The whole call is at position 0, with padding (V1-44, V1-45, L-11).
				got := s.pull(&h, 0)
				want := rpctest.Message(h.XID, rpctest.ECHO, func(w *xdr.Writer) { w.Opaque(data) })
				if h.Reads.Len() != 1 || len(payload) != 0 || !bytes.Equal(got, want) {
					t.Errorf("the Long Call of %d bytes holds something else", n)
				}
			}
			s.refuse(&h)
		}
		for _, m := range s.p.Messages() {
			if len(m.Bytes) > threshold {
				t.Errorf("a Send of %d bytes at T=%d", len(m.Bytes), threshold)
			}
		}
	}
}

// twoItems returns a procedure with two eligible arguments, and words between them.
func twoItems(one, two []byte, tail int) *rpc.Exchange {
	return &rpc.Exchange{
		Program: 5, Version: 1, Procedure: 1, MaxArgs: 64 + tail, MaxResults: 4,
		Binding: &rpc.Procedure{Name: "TWO"},
		Args: func(w *xdr.Writer) {
			w.Payload(one, true, nil)
			w.Uint32(7)
			w.Payload(two, true, nil)
			w.FixedOpaque(make([]byte, tail))
		},
	}
}

// A position counts the bytes that were reduced before it, with their padding (V1-36). All segments
// of a chunk have its position, whatever their lengths (V1-38, P-3). Each item has its own chunk
// (V1-33). The same holds in a Long Call with Read chunks, whose Position-Zero chunk comes first
// (V1-44, L-11). Items that are not eligible are never reduced (V1-28). The reassembled stream is
// that of the upper layer (V1-35). The numbers are rows of docs/conformance.md.
func TestPositions(t *testing.T) {
	one, two := pattern(3001), pattern(2002)
	for _, tail := range []int{0, 4000} { // the second call is Long although it is reduced
		s := newScript(t, DialConfig{maxSegment: 999}, nil)
		s.start(twoItems(one, two, tail))
		h, _ := s.next()
		var positions []uint32
		for i := range h.Reads.Len() {
			r := h.Reads.At(i)
			if len(positions) == 0 || positions[len(positions)-1] != r.Position {
				positions = append(positions, r.Position)
			}
			if r.Length > 999 {
				t.Errorf("segment of %d bytes", r.Length)
			}
		}
		first := uint32(40 + 4)
		second := first + uint32(padded(len(one))) + 8
		want := []uint32{first, second}
		if tail > 0 {
			want = []uint32{0, first, second}
		}
		if !equal(positions, want) {
			t.Errorf("positions %v, want %v", positions, want)
		}
		if !bytes.Equal(s.pull(&h, first), one) || !bytes.Equal(s.pull(&h, second), two) {
			t.Error("the chunks hold something else")
		}
		if tail > 0 {
			if got := s.pull(&h, 0); len(got) != 40+4+8+tail {
				t.Errorf("the reduced Payload has %d bytes", len(got))
			}
		}
		s.refuse(&h)
	}
	s := newScript(t, DialConfig{}, nil)
	x := twoItems(one, two, 0)
	x.Binding = nil // nothing is eligible
	s.start(x)
	h, _ := s.next()
	if h.Proc != wire.ProcNoMsg || len(s.pull(&h, 0)) != 40+12+padded(len(one))+padded(len(two)) {
		t.Errorf("%v with something reduced (V1-28)", h.Proc)
	}
	s.refuse(&h)

	// Of two payloads only the second is eligible (V1-28).
	s = newScript(t, DialConfig{}, nil)
	x = twoItems(nil, nil, 0)
	x.Args = func(w *xdr.Writer) {
		w.Payload(pattern(300), false, nil)
		w.Payload(two, true, nil)
	}
	x.MaxArgs = 400
	s.start(x)
	h, payload := s.next()
	if h.Proc != wire.ProcMsg || h.Reads.Len() != 1 || h.Reads.At(0).Position != 40+4+300+4 || len(payload) != 40+4+300+4 {
		t.Errorf("%v with %d segments and %d bytes of Payload: something else than the eligible item was reduced", h.Proc, h.Reads.Len(), len(payload))
	}
	s.refuse(&h)
}

func equal(a, b []uint32) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// A Write chunk is as long as its sink (V1-48, V1-49, V1-53). An item that is to come inline among
// others has an empty chunk; without sinks the Write list is empty (V1-62). The call has a Reply
// chunk if the largest reply, verifier included, may not fit a Send, and only then (V1-63, V1-64,
// V1-67). The numbers are rows of docs/conformance.md.
//
// The test takes sizes from the standards, so that they do not follow the code: a transport header
// without chunks has 28 bytes (RFC 8166 §4.3), and an accepted reply 24 (RFC 5531 §9), and 400 more
// with the largest verifier (RFC 5531 §8.2).
func TestOffers(t *testing.T) {
	s := newScript(t, DialConfig{}, nil)
	big := func(n int) *rpc.Exchange {
		return &rpc.Exchange{Program: 5, Version: 1, Binding: &rpc.Procedure{MaxResults: n}}
	}
	// The size of the results follows two payloads that the server reads.
	behind := func(n uint32) *rpc.Exchange {
		return &rpc.Exchange{
			Program: 5, Version: 1, MaxArgs: 6000,
			Binding: &rpc.Procedure{Walk: func(args *xdr.Decoder, s *rpc.Shape) {
				s.Item(args)
				s.Item(args)
				s.Words = int(args.Uint32())
			}},
			Args: func(w *xdr.Writer) {
				w.Payload(make([]byte, 2001), true, nil)
				w.Payload(make([]byte, 3003), true, nil)
				w.Uint32(n)
			},
		}
	}
	const header = 24 + 400
	const limit = 1024 - 28 - header
	for name, c := range map[string]struct {
		x      *rpc.Exchange
		writes []int // lengths; -1: an empty chunk
		reply  int
	}{
		"nothing to say":                 {x: &rpc.Exchange{Program: 5, Version: 1}},
		"GETATTR has no Reply chunk":     {x: big(112)},
		"the largest that fits (V1-64)":  {x: big(limit)},
		"one byte more (V1-63)":          {x: big(limit + 1), reply: padded(header + limit + 1)},
		"the caller's bound":             {x: &rpc.Exchange{Program: 5, Version: 1, MaxResults: 5000}, reply: header + 5000},
		"a sink":                         {x: getTo(5001, make([]byte, 5001)), writes: []int{5001}},
		"a READ without a sink":          {x: getTo(5001), reply: header + 4 + 5004},
		"two sinks of different size":    {x: getTo(5001, make([]byte, 5001), make([]byte, 7)), writes: []int{5001, 7}},
		"inline, then a sink (V1-62)":    {x: getTo(5, nil, make([]byte, 7)), writes: []int{-1, 7}},
		"all inline (V1-62)":             {x: getTo(5, nil)},
		"the echo is part of the reply":  {x: func() *rpc.Exchange { x := big(limit - 20); x.Sinks = [][]byte{make([]byte, 9)}; return x }(), writes: []int{9}, reply: padded(header + limit - 20)},
		"a size behind two payloads":     {x: behind(5000), reply: header + 5000},
		"a sink needs a binding (V1-28)": {x: &rpc.Exchange{Program: 5, Version: 1, Sinks: [][]byte{make([]byte, 4000)}}, reply: header + 4000},
	} {
		t.Run(name, func(t *testing.T) {
			s.start(c.x)
			h, _ := s.next()
			if h.Writes.Len() != len(c.writes) {
				t.Fatalf("%d Write chunks, want %d", h.Writes.Len(), len(c.writes))
			}
			handles := make(map[uint32]bool)
			for i, l := 0, h.Writes; l.Len() > 0; i++ {
				chunk := l.Next()
				for k := range chunk.Len() {
					// Each segment has memory of its own, of its stated length (V1-49).
					if at := chunk.At(k); handles[at.Handle] {
						t.Errorf("chunk %d has the handle of another", i)
					} else {
						handles[at.Handle] = true
						s.write([]wire.Segment{at}, make([]byte, at.Length))
					}
				}
				if c.writes[i] < 0 && chunk.Len() != 0 || c.writes[i] >= 0 && chunk.Bytes() != uint64(c.writes[i]) {
					t.Errorf("chunk %d has %d segments, %d bytes", i, chunk.Len(), chunk.Bytes())
				}
			}
			if h.Reply.Present != (c.reply > 0) || h.Reply.Bytes() != uint64(c.reply) {
				t.Errorf("Reply chunk of %d bytes, want %d", h.Reply.Bytes(), c.reply)
			}
			s.refuse(&h)
		})
	}
}

// If no data may be placed, a long call goes in a Position-Zero chunk and a long reply in a Reply
// chunk. One call may offer both. The sink's bytes come in the stream. Rows V1-104, V1-102, V1-106
// and V1-107 of docs/conformance.md.
func TestNoPlacement(t *testing.T) {
	s := newScript(t, DialConfig{NoPlacement: true}, nil)
	s.start(putOf(pattern(50_000)))
	h, _ := s.next()
	if h.Proc != wire.ProcNoMsg || h.Writes.Len() != 0 || len(s.pull(&h, 0)) != 40+12+50_000 {
		t.Errorf("WRITE: %v, %d Write chunks", h.Proc, h.Writes.Len())
	}
	s.refuse(&h)

	sink := canary(50_000)
	done := s.start(getTo(50_000, sink))
	h, _ = s.next()
	o := offered(&h)
	if h.Proc != wire.ProcMsg || h.Writes.Len() != 0 || h.Reply.Bytes() < 50_028 {
		t.Fatalf("READ: %v, %d Write chunks, Reply chunk of %d bytes", h.Proc, h.Writes.Len(), h.Reply.Bytes())
	}
	m := opaqueReply(h.XID, pattern(50_000))
	s.write(o.reply, m)
	s.reply(message{xid: h.XID, proc: wire.ProcNoMsg, reply: used(o.reply, len(m))})
	if r := ended(t, done); r.err != nil || !bytes.Equal(r.data, pattern(50_000)) {
		t.Errorf("READ: %v", r.err)
	}
	if !bytes.Equal(sink, canary(50_000)) {
		t.Error("the sink was exposed")
	}

	x := twoItems(pattern(50_000), pattern(60_000), 0)
	x.MaxResults = 30_000
	s.start(x)
	h, _ = s.next()
	if h.Proc != wire.ProcNoMsg || !h.Reply.Present || h.Reads.At(0).Position != 0 {
		t.Errorf("%v with a Reply chunk: %v", h.Proc, h.Reply.Present)
	}
	s.refuse(&h)
}

// A call that cannot be built or posted fails at once, and no other call fails. The memory that it
// exposed is fenced. Row V1-91 of docs/conformance.md.
func TestCallsThatCannotBeMade(t *testing.T) {
	s := newScript(t, DialConfig{}, private(false, 4096, 1024))
	client := end(s.p)
	expect := func(name string, x *rpc.Exchange, want error) {
		t.Helper()
		if r := ended(t, s.start(x)); r.err == nil || want != nil && !errors.Is(r.err, want) {
			t.Errorf("%s: %v, want %v", name, r.err, want)
		}
		if _, regions := client.Held(); regions != 0 {
			t.Errorf("%s: %d regions are exposed", name, regions)
		}
	}
	client.Faults().FailRegister(1, nil)
	x := getTo(5000, make([]byte, 5000))
	x.MaxResults = 5000
	expect("second registration", x, rdmatest.ErrInjected)
	chains, _ := client.Faults().Posted()
	client.Faults().FailPost(chains, nil)
	expect("post", getTo(5000, make([]byte, 5000)), rdmatest.ErrInjected)
	x = putOf(nil)
	x.MaxArgs, x.Args = 4, func(w *xdr.Writer) { w.Opaque(make([]byte, 2000)) }
	expect("arguments beyond MaxArgs", x, errArguments)
	x = putOf(nil)
	x.Args = func(w *xdr.Writer) { w.Fail() }
	expect("arguments without an encoding", x, errArguments)
	var sinks [][]byte
	for range 50 {
		sinks = append(sinks, make([]byte, 10))
	}
	expect("a header beyond the threshold", getTo(10, sinks...), errThreshold)
	s.ramp(8)
}

// If a device can gather only few pieces, the requester posts a copy.
func TestFewPiecesOfACall(t *testing.T) {
	s := newScriptOn(t, rdmatest.Config{MaxLocal: 1}, DialConfig{}, nil)
	s.start(putOf(pattern(333)))
	h, payload := s.next()
	want, _ := putCall(h.XID, "name", 333)
	if !bytes.Equal(payload, append(append(want, pattern(333)...), 0, 0, 0)) {
		t.Errorf("% x", payload)
	}
	s.refuse(&h)
}

// The requester releases the memory of the arguments before the caller resumes, once.
func TestArgumentsAreReleased(t *testing.T) {
	s := newScript(t, DialConfig{}, nil)
	ref := &counted{note: func() { s.provider.Log().Mark("released") }}
	x := putOf(nil)
	x.Args = func(w *xdr.Writer) {
		w.String("name")
		w.Payload(pattern(2000), true, ref)
	}
	done := s.start(x)
	h, _ := s.next()
	if ref.n != 0 {
		t.Error("released while the call is out")
	}
	s.refuse(&h)
	ended(t, done)
	s.provider.Log().Order(t, rdmatest.IsMark("released"), rdmatest.IsMark("done"))
	if ref.n != 1 {
		t.Errorf("released %d times", ref.n)
	}
}

type counted struct {
	n    int
	note func()
}

func (c *counted) Release() {
	c.n++
	c.note()
}
