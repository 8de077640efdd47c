package wire

import (
	"bytes"
	"cmp"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire/wiretest"
)

// A message is a header that a test builds.
type message struct {
	xid, version, credits uint32
	proc                  Proc
	reads                 []ReadSegment
	writes                [][]Segment
	reply                 []Segment
}

func (m message) bytes() []byte {
	p := Prefix{XID: m.xid, Version: cmp.Or(m.version, Version1), Credits: cmp.Or(m.credits, 32), Proc: m.proc}
	l := Lists{Reads: m.reads, Writes: m.writes, Reply: m.reply}
	b := make([]byte, PrefixSize+l.Size())
	p.Put(b)
	l.Put(b[PrefixSize:])
	return b
}

// at makes a Read chunk of segments.
func at(position uint32, segments ...Segment) []ReadSegment {
	var all []ReadSegment
	for _, s := range segments {
		all = append(all, ReadSegment{Position: position, Segment: s})
	}
	return all
}

// headerVectors are encoded headers and their contents. Rows V1-1, V1-36, V1-38, V1-44, V1-61,
// V1-69 and V1-72 of docs/conformance.md.
var headerVectors = []struct {
	name, hex string
	want      message
}{
	{"A", wiretest.A, message{xid: 0x1a2b3c4d}},
	{"B", wiretest.B, message{xid: 0x1a2b3c4e,
		reads: at(0x94, Segment{0x1101, 4096, 0x7f0000001000}, Segment{0x1102, 905, 0x7f0000002000})}},
	{"C", wiretest.C, message{xid: 0x1a2b3c4f, proc: ProcNoMsg,
		reads: at(0, Segment{0x1201, 2348, 0x1000}), reply: []Segment{{0x1301, 16384, 0x2000}}}},
	{"C'", wiretest.C1, message{xid: 0x1a2b3c4f, proc: ProcNoMsg, reply: []Segment{{0x1301, 5000, 0x2000}}}},
	{"D", wiretest.D, message{xid: 0x1a2b3c50, writes: [][]Segment{
		{{1, 4096, 0}, {2, 4096, 0}, {3, 4096, 0}}, {{4, 8192, 0}, {5, 8192, 0}}}}},
	{"D'", wiretest.D1, message{xid: 0x1a2b3c50, writes: [][]Segment{
		{{1, 4096, 0}, {2, 905, 0}, {3, 0, 0}}, {{4, 0, 0}, {5, 0, 0}}}}},
	{"G", wiretest.G, message{xid: 0x1a2b3c53, writes: [][]Segment{{}, {{0x21, 65536, 0x9000}}}}},
	{"the largest handle and offset (V1-1)",
		`00000001 00000001 00000020 00000000 00000001 fffffffc ffffffff 00000001 ffffffff ffffffff 00000000
		 00000000 00000000`,
		message{xid: 1, reads: at(0xfffffffc, Segment{1<<32 - 1, 1, 1<<64 - 1})}},
	{"an empty Reply chunk", `00000001 00000001 00000020 00000000 00000000 00000000 00000001 00000000`,
		message{xid: 1, reply: []Segment{}}},
}

func TestHeaderVectors(t *testing.T) {
	for _, v := range headerVectors {
		t.Run(v.name, func(t *testing.T) {
			want := wiretest.Hex(v.hex)
			if got := v.want.bytes(); !bytes.Equal(got, want) {
				t.Errorf("encoded as\n%x, want\n%x", got, want)
			}
			var h Header
			if err := h.Parse(append(bytes.Clone(want), "payload"...)); err != nil {
				t.Fatal(err)
			}
			if got := unparsed(&h); h.Size != len(want) || !bytes.Equal(got, want) {
				t.Errorf("decoded %d bytes as\n%x, want %d bytes\n%x", h.Size, got, len(want), want)
			}
		})
	}
}

// unparsed encodes a parsed header again.
func unparsed(h *Header) []byte {
	m := message{xid: h.XID, version: h.Version, credits: h.Credits, proc: h.Proc}
	for i := range h.Reads.Len() {
		m.reads = append(m.reads, h.Reads.At(i))
	}
	for l := h.Writes; l.Len() > 0; {
		m.writes = append(m.writes, segmentsOf(l.Next()))
	}
	if h.Reply.Present {
		m.reply = segmentsOf(h.Reply.WriteChunk)
	}
	return m.bytes()
}

func segmentsOf(c WriteChunk) []Segment {
	s := []Segment{}
	for i := range c.Len() {
		s = append(s, c.At(i))
	}
	return s
}

// Every truncation inside the header is a fault, never a shorter header.
func TestHeaderTruncations(t *testing.T) {
	for _, v := range headerVectors {
		whole := wiretest.Hex(v.hex)
		for n := range len(whole) {
			var h Header
			if err := h.Parse(whole[:n]); err != ErrTruncated {
				t.Errorf("%s cut to %d bytes: %v", v.name, n, err)
			}
		}
	}
}

// Parse refuses messages that cannot be a header. It compares a count of segments with the bytes
// that are left before it does anything else with the count. Row V1-88 of docs/conformance.md.
func TestHeaderFaults(t *testing.T) {
	for name, c := range map[string]struct {
		hex  string
		want error
	}{
		"Read list discriminator 2":                  {`00000001 00000001 00000001 00000000 00000002 00000000 00000000`, ErrDiscriminator},
		"Write list discriminator 2":                 {`00000001 00000001 00000001 00000000 00000000 00000002 00000000`, ErrDiscriminator},
		"Reply chunk discriminator 2":                {`00000001 00000001 00000001 00000000 00000000 00000000 00000002`, ErrDiscriminator},
		"segment count beyond the message":           {`00000001 00000001 00000001 00000000 00000000 00000001 00000001 00000000`, ErrTruncated},
		"segment count 2^32-1":                       {`00000001 00000001 00000001 00000000 00000000 00000001 ffffffff 00000000`, ErrTruncated},
		"segment count that wraps in 32 bits":        {`00000001 00000001 00000001 00000000 00000000 00000001 10000000 00000000`, ErrTruncated},
		"Reply chunk's segment count beyond message": {`00000001 00000001 00000001 00000000 00000000 00000000 00000001 00000001`, ErrTruncated},
		"Read list cut off":                          {`00000001 00000001 00000001 00000000 00000001 00000000 00000000`, ErrTruncated},
	} {
		var h Header
		if err := h.Parse(wiretest.Hex(c.hex)); err != c.want {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// The vectors E and F of wiretest decode and encode as RDMA_ERRORs. Rows V1-83, V1-84, V1-86 and
// V1-87 of docs/conformance.md.
func TestErrorVectors(t *testing.T) {
	for _, v := range []struct {
		name, hex string
		prefix    Prefix
		body      ErrorBody
	}{
		{"E", wiretest.E, Prefix{0x1a2b3c51, 2, 32, ProcError}, ErrorBody{ErrVers, 1, 1}},
		{"F", wiretest.F, Prefix{0x1a2b3c52, 1, 32, ProcError}, ErrorBody{Code: ErrChunk}},
	} {
		want := wiretest.Hex(v.hex)
		b := make([]byte, MaxErrorSize)
		if n := v.body.Put(b, v.prefix); !bytes.Equal(b[:n], want) {
			t.Errorf("%s: encoded as %x, want %x", v.name, b[:n], want)
		}
		p, ok := ParsePrefix(want)
		body, good := ParseErrorBody(want)
		if !ok || !good || p != v.prefix || body != v.body {
			t.Errorf("%s: decoded as %+v %+v", v.name, p, body)
		}
		for n := range len(want) {
			if _, ok := ParseErrorBody(want[:n]); ok {
				t.Errorf("%s: %d bytes of it are taken for the whole (V1-86)", v.name, n)
			}
		}
		// Extra words of RFC 5666 (L-10).
		if body, ok := ParseErrorBody(append(bytes.Clone(want), make([]byte, 32)...)); !ok || body != v.body {
			t.Errorf("%s with spare words: %+v %v", v.name, body, ok)
		}
	}
	if _, ok := ParseErrorBody(wiretest.Hex(`00000001 00000001 00000001 00000004 00000007 00000000 00000000`)); ok {
		t.Error("error code 7 has a meaning (V1-86)")
	}
}

// SoleHandle returns the one tag that a reply may invalidate: the header must have exactly one
// handle. Rows V1-114 and A-15 of docs/conformance.md.
func TestSoleHandle(t *testing.T) {
	s := func(h uint32) Segment { return Segment{Handle: h, Length: 4} }
	for name, c := range map[string]struct {
		m    message
		want uint32
		ok   bool
	}{
		"no chunks":                       {message{}, 0, false},
		"one segment":                     {message{reads: at(4, s(7))}, 7, true},
		"two segments of one region":      {message{writes: [][]Segment{{s(7), s(7)}}}, 7, true},
		"an odd READ's pad segment":       {message{writes: [][]Segment{{s(7), s(8)}}}, 0, false},
		"in two lists, the same":          {message{reads: at(4, s(7)), reply: []Segment{s(7)}}, 7, true},
		"in two lists, two":               {message{reads: at(4, s(7)), reply: []Segment{s(9)}}, 0, false},
		"two Write chunks, two":           {message{writes: [][]Segment{{s(1)}, {s(2)}}}, 0, false},
		"handle 0 counts as any other":    {message{writes: [][]Segment{{s(0)}, {s(2)}}}, 0, false},
		"an empty Write chunk names none": {message{writes: [][]Segment{{}, {s(2)}}}, 2, true},
	} {
		var h Header
		if err := h.Parse(c.m.bytes()); err != nil {
			t.Fatal(err)
		}
		if got, ok := h.SoleHandle(); got != c.want || ok != c.ok {
			t.Errorf("%s: %d %v, want %d %v", name, got, ok, c.want, c.ok)
		}
	}
}

func parseAndPut(h *Header, in, out []byte) {
	if h.Parse(in) != nil {
		panic("header")
	}
	h.PutReply(out, h.Prefix, []uint64{5001, 5001}, 0)
}

func TestHeaderAllocatesNothing(t *testing.T) {
	in, out := wiretest.Hex(wiretest.D), make([]byte, 256)
	var h Header
	if n := testing.AllocsPerRun(1000, func() { parseAndPut(&h, in, out) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkHeader(b *testing.B) {
	for name, v := range map[string]string{"plain": wiretest.A, "two Write chunks": wiretest.D} {
		b.Run(name, func(b *testing.B) {
			in, out := wiretest.Hex(v), make([]byte, 256)
			var h Header
			b.ReportAllocs()
			for b.Loop() {
				parseAndPut(&h, in, out)
			}
		})
	}
}

func FuzzHeader(f *testing.F) {
	for _, v := range headerVectors {
		f.Add(wiretest.Hex(v.hex))
	}
	f.Add(wiretest.Hex(wiretest.E))
	f.Add(wiretest.Hex(wiretest.F))
	f.Fuzz(func(t *testing.T, b []byte) {
		var h Header
		if h.Parse(b) != nil {
			return
		}
		// A header that parses encodes to the same bytes.
		if h.Version == 0 || h.Credits == 0 {
			return // the test's encoder does not encode zeros here
		}
		if got := unparsed(&h); !bytes.Equal(got, b[:h.Size]) {
			t.Fatalf("%x\nencodes to\n%x", b[:h.Size], got)
		}
		h.SoleHandle()
		h.Wraps()
		if h.ReplySize() > h.Size {
			t.Fatalf("the reply's header has %d bytes, the call's %d", h.ReplySize(), h.Size)
		}
	})
}
