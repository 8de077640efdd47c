package wire

import (
	"bytes"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire/wiretest"
)

// fuzzVersion2 gives f the messages of version 2.
func fuzzVersion2(f *testing.F) {
	for _, v := range wiretest.Version2 {
		f.Add(wiretest.Hex(v.Hex))
	}
}

// A message that parses encodes to the bytes of its header. A message that is refused has a reason; what goes
// back for it is an answer of its type.
func FuzzVersion2(f *testing.F) {
	fuzzVersion2(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		p, ok := ParsePrefix2(b)
		if !ok || p.Type.IsConnprop() {
			return // see FuzzProperties
		}
		header, size, r := again(b)
		if r.Refused() {
			if r.Answer.Code != 0 && (p.Type.IsReply() || p.Type == TypeError || p.Type == TypeGrant) {
				t.Fatalf("%v is answered: %+v", p.Type, r)
			}
			return
		}
		if size > len(b) || p.Type != TypeError && !bytes.Equal(header, b[:size]) {
			t.Fatalf("%x\nencodes to\n%x", b[:size], header)
		}
		if p.Type == TypeError && !bytes.Equal(header, b[:len(header)]) {
			t.Fatalf("%x\nencodes to\n%x", b, header)
		}
		p.JudgeMessage(b[size:])
	})
}

// A call that parses keeps its promises: its reply has no more bytes than the call, its counts fit together,
// and a handle that may be invalidated occurs in it.
func FuzzCall2(f *testing.F) {
	fuzzVersion2(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < PrefixSize {
			return
		}
		b = patched(b, 3, uint32(TypeCallExternal)+2*uint32(b[15]&1))
		var h Call2
		if h.Parse(b).Refused() {
			return
		}
		h.Invalidates()
		h.Within(Limits2{1, 1, 1, 1, true})
		for _, ht := range []HeaderType{TypeReplyInline, TypeReplyExternal} {
			if ht == TypeReplyExternal && !h.Reply.Present {
				continue
			}
			n := h.ReplySize2(ht)
			if n > len(b) {
				t.Fatalf("a reply of %d bytes to a call of %d", n, len(b))
			}
			out := make([]byte, n)
			h.PutReply2(out, Prefix2{1, Version2, 1, ht}, []uint64{5000, 1 << 40}, 1<<40)
			var reply Reply2
			if r := reply.Parse(out); r.Refused() || reply.Size != n || reply.Writes.Len() != h.Writes.Len() {
				t.Fatalf("%v: %+v", ht, r)
			}
			for w, o := reply.Writes, h.Writes; w.Len() > 0; {
				if got, offered := w.Next(), o.Next(); got.Len() != offered.Len() || got.Bytes() > offered.Bytes() {
					t.Fatalf("%d bytes written to a chunk of %d", got.Bytes(), offered.Bytes())
				}
			}
		}
	})
}

// Properties that parse encode to values that parse to the same.
func FuzzProperties(f *testing.F) {
	fuzzVersion2(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		before := DefaultProperties()
		before.Segments = 99
		p := before
		if r := p.Parse(b); r.Refused() {
			if r.Answer.Code != Err2BadXDR && r.Answer.Code != Err2BadPropval || p.HostAuth != nil || p.Segments != 99 {
				t.Fatalf("%+v, %+v", r, p)
			}
			return
		}
		which := []PropertyID{PropSendSize, PropReceiveSize, PropSegmentSize, PropSegments, PropReverse, PropHostAuth}
		out := make([]byte, p.Size(which...))
		p.Put(out, Prefix2{Type: TypeConnpropFinal}, which...)
		q := before
		if r := q.Parse(out); r.Refused() || !bytes.Equal(p.HostAuth, q.HostAuth) {
			t.Fatalf("%+v: %+v, %+v", r, q, p)
		}
		p.HostAuth, q.HostAuth = nil, nil
		if q.SendSize != p.SendSize || q.ReceiveSize != p.ReceiveSize || q.SegmentSize != p.SegmentSize || q.Segments != p.Segments || q.Reverse != p.Reverse {
			t.Fatalf("%+v, %+v", q, p)
		}
	})
}

// The parsers and encoders of version 2 allocate nothing, whether a message is good or bad.
func TestVersion2AllocatesNothing(t *testing.T) {
	call, _ := vector(t, "RDMA2_CALL_INLINE, chunks")
	reply, _ := vector(t, "RDMA2_REPLY_INLINE, a Write")
	props, _ := vector(t, "RDMA2_CONNPROP_FINAL")
	refused, _ := vector(t, "RDMA2_ERR_WRITE")
	bad := patched(call, 5, 7)
	out := make([]byte, 256)
	var h Call2
	var back Reply2
	p := DefaultProperties()
	lists := Lists{Reads: []ReadSegment{{0, Segment{1, 2, 3}}, {4, Segment{1, 2, 3}}}, Writes: [][]Segment{{{4, 5, 6}}}}
	for name, f := range map[string]func(){
		"call": func() {
			h.Parse(call)
			h.Within(Limits2{1, 1, 2, 4, true})
			h.Invalidates()
			h.PutReply2(out, h.Prefix2, []uint64{77}, 0)
		},
		"bad call": func() {
			r := h.Parse(bad)
			r.Answer.Put(out, h.Prefix2)
		},
		"lists": func() {
			lists.Put2(out[:lists.Size2(TypeCallExternal)], Prefix2{Type: TypeCallExternal}, 1)
		},
		"reply":      func() { back.Parse(reply) },
		"properties": func() { p.Parse(props); p.Put(out, Prefix2{}, PropSendSize, PropReceiveSize) },
		"error":      func() { e, _ := ParseErrorBody2(refused); e.Put(out, Prefix2{}) },
	} {
		if n := testing.AllocsPerRun(1000, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
