package wire

import (
	"bytes"
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire/wiretest"
)

// again decodes a message of version 2 and encodes its header again. size is the header's length.
func again(b []byte) (header []byte, size int, r Refusal) {
	p, _ := ParsePrefix2(b)
	out := make([]byte, len(b)+64)
	switch {
	case p.Type == TypeError:
		e, ok := ParseErrorBody2(b)
		if !ok {
			return nil, 0, Refusal{Why: "an RDMA2_ERROR that is dropped"}
		}
		n := e.Put(out, p)
		return out[:n], n, r
	case p.Type == TypeGrant:
		p.Put(out)
		return out[:PrefixSize], PrefixSize, r
	case p.Type.IsConnprop():
		return againProperties(b, p)
	case p.Type.IsMiddle():
		var h Part2
		r = h.Parse(b)
		h.Put(out)
		return out[:PartSize], PartSize, r
	case p.Type.IsCall():
		var h Call2
		if r = h.Parse(b); r.Refused() {
			return nil, 0, r
		}
		l := listsOf(&h)
		l.Put2(out, h.Prefix2, h.InvalidateHandle)
		return out[:l.Size2(h.Type)], h.Size, r
	case p.Type.IsReply():
		var h Reply2
		if r = h.Parse(b); r.Refused() {
			return nil, 0, r
		}
		l := Lists{}
		for w := h.Writes; w.Len() > 0; {
			l.Writes = append(l.Writes, segmentsOf(w.Next()))
		}
		if h.Reply.Present {
			l.Reply = segmentsOf(h.Reply.WriteChunk)
		}
		lists := make([]byte, l.Size())
		l.Put(lists)
		h.Prefix2.Put(out)
		n := PrefixSize + copy(out[PrefixSize:], lists[4:]) // there is no Read list
		if h.Type == TypeReplyInline {
			n -= 4 // nor a Reply chunk
		}
		return out[:n], h.Size, r
	}
	return nil, 0, p.JudgeType()
}

// againProperties decodes all properties of a message, which must be known ones, and encodes them in their
// order.
func againProperties(b []byte, p Prefix2) (header []byte, size int, r Refusal) {
	v := DefaultProperties()
	if r = v.Parse(b); r.Refused() {
		return nil, 0, r
	}
	var which []PropertyID
	for at := PrefixSize + 4; at < len(b); {
		which = append(which, PropertyID(b[at+3]))
		at += 8 + int(b[at+7])
	}
	out := make([]byte, v.Size(which...))
	v.Put(out, p, which...)
	return out, len(b), r
}

// listsOf returns the lists of a parsed call, to encode them again.
func listsOf(h *Call2) Lists {
	var l Lists
	for i := range h.Body.Len() {
		l.Reads = append(l.Reads, h.Body.At(i))
	}
	for i := range h.Reads.Len() {
		l.Reads = append(l.Reads, h.Reads.At(i))
	}
	for w := h.Writes; w.Len() > 0; {
		l.Writes = append(l.Writes, segmentsOf(w.Next()))
	}
	if h.Reply.Present {
		l.Reply = segmentsOf(h.Reply.WriteChunk)
	}
	return l
}

// vector returns a message of version 2 by the beginning of its name, and the length of its header.
func vector(t testing.TB, name string) (message []byte, header int) {
	t.Helper()
	for _, v := range wiretest.Version2 {
		if strings.HasPrefix(v.Name, name) {
			before, _, _ := strings.Cut(v.Hex, "|")
			return wiretest.Hex(v.Hex), len(wiretest.Hex(before))
		}
	}
	t.Fatalf("no message %q", name)
	return nil, 0
}

// The codec decodes messages of all header types, finds where their headers end, and encodes them to the
// same bytes. Rows V2-1, V2-48 of docs/conformance.md.
func TestVersion2Vectors(t *testing.T) {
	seen := make(map[HeaderType]bool)
	for _, v := range wiretest.Version2 {
		b := wiretest.Hex(v.Hex)
		before, _, _ := strings.Cut(v.Hex, "|")
		want := wiretest.Hex(before)
		p, ok := ParsePrefix2(b)
		if !ok || !p.Type.Known() || !strings.HasPrefix(v.Name, p.Type.String()) && p.Type != TypeError {
			t.Errorf("%s: the prefix is %+v", v.Name, p)
		}
		seen[p.Type] = true
		got, size, r := again(b)
		if r.Refused() || size != len(want) || !bytes.Equal(got, want) {
			t.Errorf("%s: decoded %d bytes and encoded\n%x, want %d bytes\n%x (%+v)", v.Name, size, got, len(want), want, r)
		}
	}
	for ht := TypeError; ht.Known(); ht++ {
		if !seen[ht] {
			t.Errorf("no message of type %v (V2-48)", ht)
		}
	}
}

// A header that ends early is refused, at each length. If it is long enough for its prefix, an RDMA2_ERROR
// with BAD_XDR goes back for a call and for properties, and nothing for a reply, an RDMA2_ERROR or a runt.
// Rows V2-66, V2-82 of docs/conformance.md.
func TestVersion2Truncations(t *testing.T) {
	for _, v := range wiretest.Version2 {
		before, _, _ := strings.Cut(v.Hex, "|")
		whole := wiretest.Hex(before)
		for n := range len(whole) {
			p, ok := ParsePrefix2(whole[:n])
			if ok != (n >= PrefixSize) {
				t.Errorf("%s cut to %d bytes: a prefix %v (V2-66)", v.Name, n, ok)
			}
			if !ok {
				continue
			}
			_, _, r := again(whole[:n])
			want := Err2BadXDR
			switch {
			case p.Type.IsReply(), p.Type == TypeError:
				want = 0
			case p.Type.IsConnprop() && cutInValue(whole, n):
				want = Err2BadPropval
			}
			if !r.Refused() || r.Answer != (ErrorBody2{Code: want}) {
				t.Errorf("%s cut to %d bytes: %+v (V2-82)", v.Name, n, r)
			}
		}
	}
}

// cutInValue reports whether the byte n of a message is in the value of a property.
func cutInValue(message []byte, n int) bool {
	at := PrefixSize + 4
	for at+8 <= n {
		at += 8
		if n < at+int(message[at-1]) {
			return true
		}
		at += int(message[at-1])
	}
	return false
}

// Types from 4 to 13 are those of version 2. Rows V2-49, V2-77 of docs/conformance.md.
func TestUnknownHeaderTypes(t *testing.T) {
	for _, ht := range []HeaderType{0, 1, 2, 3, 14, 15, 100, 0xffffffff} {
		p := Prefix2{XID: 1, Version: Version2, Type: ht}
		if r := p.JudgeType(); r.Answer != (ErrorBody2{Code: Err2InvalHtype}) || !r.Refused() {
			t.Errorf("type %d: %+v", uint32(ht), r)
		}
		if ht.IsCall() || ht.IsReply() || ht.IsConnprop() || ht.IsMiddle() || ht.String() != "rdma_htype(?)" {
			t.Errorf("type %d has a meaning", uint32(ht))
		}
	}
	for ht := TypeError; ht <= TypeReplyInline; ht++ {
		if r := (Prefix2{Type: ht}).JudgeType(); r.Refused() {
			t.Errorf("%v: %+v", ht, r)
		}
	}
}

// A version that the receiver does not support is refused with the range that it supports, also on a
// connection whose version is settled; another version than the settled one is a mismatch. Rows V2-71, V2-74, V2-N25
// of docs/conformance.md.
func TestJudgeVersion(t *testing.T) {
	vers := func(low, high uint32) ErrorBody2 { return ErrorBody2{Code: Err2Vers, Low: low, High: high} }
	mismatch := ErrorBody2{Code: Err2VersMismatch}
	for _, c := range []struct {
		version, settled, low, high uint32
		want                        ErrorBody2
	}{
		{2, 0, 1, 2, ErrorBody2{}},
		{1, 0, 1, 2, ErrorBody2{}},
		{2, 2, 1, 2, ErrorBody2{}},
		{0, 0, 1, 2, vers(1, 2)},
		{3, 0, 1, 2, vers(1, 2)},
		{0xffffffff, 0, 1, 2, vers(1, 2)},
		{7, 2, 1, 2, vers(1, 2)},
		{2, 0, 1, 1, vers(1, 1)},
		{1, 0, 2, 2, vers(2, 2)},
		{1, 2, 1, 2, mismatch},
		{2, 1, 1, 2, mismatch},
	} {
		r := Prefix2{Version: c.version}.JudgeVersion(c.settled, c.low, c.high)
		if r.Answer != c.want || r.Refused() != (c.want.Code != 0) {
			t.Errorf("version %d, settled %d, supported %d to %d: %+v, want %+v", c.version, c.settled, c.low, c.high, r, c.want)
		}
	}
}

// A message of an unknown type gets INVAL_HTYPE although the RPC message of its XID has failed: it has no direction, so it
// is no part of one. Rows V2-77, V2-81 of docs/conformance.md.
func TestUnknownTypeOfAFailedXID(t *testing.T) {
	s := Sequence{Most: 1000}
	s.Fail(Prefix2{XID: 5, Type: TypeCallMiddle})
	s.Fail(Prefix2{XID: 5, Type: TypeReplyMiddle})
	for _, ht := range []HeaderType{0, 3, 14, 0xffffffff} {
		if r := (Prefix2{XID: 5, Version: Version2, Type: ht}).JudgeType(); r.Answer != (ErrorBody2{Code: Err2InvalHtype}) {
			t.Errorf("type %d: %+v", uint32(ht), r)
		}
		if step := s.Admit(Prefix2{XID: 5, Version: Version2, Type: ht}); step.Drop {
			t.Errorf("type %d: %+v", uint32(ht), step)
		}
	}
	if step := s.Admit(Prefix2{XID: 5, Version: Version2, Type: TypeCallInline}); !step.Drop {
		t.Errorf("%+v", step)
	}
}

// No error is answered with an error, whatever its version, its code and the connection's version are: each answer
// to a message of another version has that version itself. ERR_VERS is known by its type and its code alone. Rows
// V2-68, V2-71, V2-74 of docs/conformance.md.
func TestNoErrorAnswersAnError(t *testing.T) {
	for _, version := range []uint32{0, 1, 2, 3, 9, 0xffffffff} {
		for _, settled := range []uint32{0, 1, 2} {
			for _, c := range errors2 {
				b := make([]byte, MaxError2Size)
				b = b[:c.body.Put(b, Prefix2{XID: 7, Version: version, Type: TypeCallInline})]
				p, ok := ParsePrefix2(b)
				if !ok || p.JudgeVersion(settled, 1, 2).Refused() || p.JudgeType().Refused() {
					t.Errorf("%v of version %d, version %d settled: %+v", c.body.Code, version, settled, p.JudgeVersion(settled, 1, 2))
				}
				if e, ok := ParseErrorBody2(b); !ok || e != c.body {
					t.Errorf("%v of version %d: decoded as %+v %v", c.body.Code, version, e, ok)
				}
			}
		}
	}
}

// An RDMA2_GRANT is a prefix with XID 0. Row V2-50 of docs/conformance.md.
func TestPutGrant(t *testing.T) {
	want, _ := vector(t, "RDMA2_GRANT")
	b := bytes.Repeat([]byte{0xee}, PrefixSize)
	if PutGrant(b, 0x25); !bytes.Equal(b, want) {
		t.Errorf("% x", b)
	}
}
