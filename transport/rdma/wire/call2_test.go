package wire

import (
	"bytes"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire/wiretest"
)

// inline and external make calls. The Call chunk of external has the segments body, or one if there are none.
func inline(l Lists) []byte { return encoded(TypeCallInline, l, 0) }
func external(l Lists, body ...Segment) []byte {
	if len(body) == 0 {
		body = []Segment{{1, 40, 0}}
	}
	l.Reads = append(at(0, body...), l.Reads...)
	return encoded(TypeCallExternal, l, 0)
}

func encoded(t HeaderType, l Lists, invalidate uint32) []byte {
	b := make([]byte, l.Size2(t))
	l.Put2(b, Prefix2{0x27, Version2, 0x30, t}, invalidate)
	return b
}

// positions makes a Read list with a segment at each position.
func positions(all ...uint32) Lists {
	var l Lists
	for _, p := range all {
		l.Reads = append(l.Reads, at(p, Segment{p, 4, 0})...)
	}
	return l
}

// patched returns b with word i, counted from 0, replaced.
func patched(b []byte, i int, word uint32) []byte {
	b = bytes.Clone(b)
	b[4*i], b[4*i+1], b[4*i+2], b[4*i+3] = byte(word>>24), byte(word>>16), byte(word>>8), byte(word)
	return b
}

// The lists of a call are checked as they are decoded. Rows V2-20, V2-21, V2-57, V2-63, V2-82, V2-N8
// of docs/conformance.md.
func TestCallLists(t *testing.T) {
	for name, c := range map[string]struct {
		message []byte
		bad     bool
	}{
		"no chunks":                               {inline(Lists{}), false},
		"positions that grow (V2-21)":             {inline(positions(100, 104, 200)), false},
		"two segments of one chunk (V2-21)":       {inline(positions(100, 100, 200)), false},
		"the last position":                       {inline(positions(4, 0xfffffffc)), false},
		"positions that go backwards (V2-21)":     {inline(positions(200, 100)), true},
		"a chunk in two places (V2-21)":           {inline(positions(100, 200, 100)), true},
		"position 0 (V2-57)":                      {inline(positions(0)), true},
		"position 0 behind another (V2-57)":       {inline(positions(4, 0)), true},
		"position 0 of an external call (V2-57)":  {patched(external(positions(4, 8)), 13, 0), true},
		"position 5 (V2-20)":                      {inline(positions(5)), true},
		"position 6 (V2-20)":                      {inline(positions(4, 6)), true},
		"an external call":                        {external(positions(100, 100, 200)), false},
		"a Call chunk of two segments":            {external(Lists{}, Segment{1, 40, 0}, Segment{2, 3, 0}), false},
		"a Call chunk without segments (V2-82)":   {encoded(TypeCallExternal, Lists{}, 0), true},
		"a Call chunk at position 4 (V2-63)":      {patched(external(Lists{}), 6, 4), true},
		"its second segment at position 4":        {patched(external(Lists{}, make([]Segment, 2)...), 12, 4), true},
		"discriminator of the Call chunk":         {patched(external(Lists{}), 5, 2), true},
		"discriminator of the Read list":          {patched(inline(Lists{}), 5, 2), true},
		"discriminator of the Write list":         {patched(inline(Lists{}), 6, 0xffffffff), true},
		"discriminator of the Reply chunk":        {patched(inline(Lists{}), 7, 2), true},
		"a Write chunk of 2^32-1 segments":        {patched(inline(Lists{Writes: [][]Segment{{{1, 2, 3}}}}), 7, 0xffffffff), true},
		"a Write chunk of 2^28 segments":          {patched(inline(Lists{Writes: [][]Segment{{{1, 2, 3}}}}), 7, 0x10000000), true},
		"a Reply chunk of 2^28+1 segments":        {patched(inline(Lists{Reply: []Segment{{1, 2, 3}}}), 8, 0x10000001), true},
		"an empty Write chunk":                    {inline(Lists{Writes: [][]Segment{{}}}), false},
		"an empty Reply chunk":                    {inline(Lists{Reply: []Segment{}}), false},
		"a segment up to the last offset":         {inline(Lists{Reply: []Segment{{1, 16, 1<<64 - 16}}}), false},
		"a Read segment beyond the last offset":   {inline(Lists{Reads: at(4, Segment{1, 17, 1<<64 - 16})}), true},
		"a Write segment beyond the last offset":  {inline(Lists{Writes: [][]Segment{{{1, 1, 1}, {1, 17, 1<<64 - 16}}}}), true},
		"a Reply segment beyond the last offset":  {inline(Lists{Reply: []Segment{{1, 1, 1}, {1, 2, 1<<64 - 1}}}), true},
		"a Call segment beyond the last offset":   {external(Lists{}, Segment{1, 17, 1<<64 - 16}), true},
		"an external call with bytes behind it":   {append(external(Lists{}), 1, 2, 3, 4), false},
		"empty segments, wherever they are":       {inline(Lists{Reads: at(4, Segment{}), Reply: []Segment{{1, 0, 1<<64 - 1}}}), false},
		"RFC 8166's header in place of version 2": {patched(wiretest.Hex(wiretest.B), 3, 10), true},
	} {
		t.Run(name, func(t *testing.T) {
			var h Call2
			r := h.Parse(c.message)
			if r.Refused() != c.bad || c.bad && r.Answer != (ErrorBody2{Code: Err2BadXDR}) {
				t.Errorf("%+v", r)
			}
			if c.bad && h.XID == 0 {
				t.Error("the prefix is not set")
			}
		})
	}
}

// A call has limits for the chunks of its lists, for the segments of a chunk, and for all segments. Rows
// V2-87, V2-88, V2-91, V2-93, V2-94 of docs/conformance.md.
func TestWithin(t *testing.T) {
	limits := Limits2{ReadChunks: 2, WriteChunks: 2, ChunkSegments: 3, Segments: 6}
	s := func(n int) []Segment { return make([]Segment, n) }
	for name, c := range map[string]struct {
		message []byte
		limits  Limits2
		want    ErrorBody2
	}{
		"nothing":                                  {inline(Lists{}), Limits2{}, ErrorBody2{}},
		"two Read chunks":                          {inline(positions(4, 4, 4, 8)), limits, ErrorBody2{}},
		"three Read chunks (V2-87)":                {inline(positions(4, 8, 12)), limits, ErrorBody2{Code: Err2ReadChunks, Max: 2}},
		"no Read chunk at all (V2-88)":             {inline(positions(4)), Limits2{ChunkSegments: 1, Segments: 1}, ErrorBody2{Code: Err2ReadChunks}},
		"two Write chunks":                         {inline(Lists{Writes: [][]Segment{s(3), s(3)}}), limits, ErrorBody2{}},
		"three Write chunks (V2-91)":               {inline(Lists{Writes: [][]Segment{s(1), s(1), s(1)}}), limits, ErrorBody2{Code: Err2WriteChunks, Max: 2}},
		"no Write chunk at all, but parts (V2-91)": {inline(Lists{Writes: [][]Segment{s(1)}}), Limits2{ChunkSegments: 1, Segments: 1, Parts: true}, ErrorBody2{Code: Err2WriteChunks}},
		"no Write chunk and no parts (V2-93)":      {inline(Lists{Writes: [][]Segment{s(1)}}), Limits2{ChunkSegments: 1, Segments: 1}, ErrorBody2{Code: Err2ReplyResource}},
		"more chunks than segments (V2-94)":        {inline(Lists{Writes: [][]Segment{s(1), {}, s(1)}}), Limits2{WriteChunks: 3, ChunkSegments: 2, Segments: 1}, ErrorBody2{Code: Err2System}},
		"three empty Write chunks (V2-91)":         {inline(Lists{Writes: [][]Segment{{}, {}, {}}}), limits, ErrorBody2{Code: Err2WriteChunks, Max: 2}},
		"a Reply chunk is no Write chunk":          {inline(Lists{Writes: [][]Segment{s(1), s(1)}, Reply: s(1)}), limits, ErrorBody2{}},
		"four segments of a Read chunk (V2-94)":    {inline(positions(4, 8, 8, 8, 8)), limits, ErrorBody2{Code: Err2Segments, Max: 3}},
		"four segments of a Write chunk (V2-94)":   {inline(Lists{Writes: [][]Segment{s(1), s(4)}}), limits, ErrorBody2{Code: Err2Segments, Max: 3}},
		"four segments of a Reply chunk (V2-94)":   {inline(Lists{Reply: s(4)}), limits, ErrorBody2{Code: Err2Segments, Max: 3}},
		"four segments of a Call chunk (V2-94)":    {external(Lists{}, s(4)...), limits, ErrorBody2{Code: Err2Segments, Max: 3}},
		"seven segments in all (V2-94)":            {external(Lists{Reads: positions(4, 4).Reads, Writes: [][]Segment{s(2)}, Reply: s(1)}, s(2)...), limits, ErrorBody2{Code: Err2Segments, Max: 1}},
		"six segments in all":                      {external(Lists{Reads: positions(4, 4).Reads, Writes: [][]Segment{s(2)}, Reply: s(1)}, s(1)...), limits, ErrorBody2{}},
	} {
		t.Run(name, func(t *testing.T) {
			var h Call2
			if r := h.Parse(c.message); r.Refused() {
				t.Fatalf("%+v", r)
			}
			if r := h.Within(c.limits); r.Answer != c.want || r.Refused() != (c.want.Code != 0) {
				t.Errorf("%+v, want %+v", r, c.want)
			}
		})
	}
}

// A requester that obeys RDMA2_ERR_SEGMENTS is not refused again: with the number that the error has, each chunk of the
// call may have that many segments. Row V2-94 of docs/conformance.md.
func TestWithinTheNumberOfTheError(t *testing.T) {
	refused := 0
	for n := range 5 * 5 * 5 * 5 * 5 {
		counts := [...]int{n % 5, n / 5 % 5, n / 25 % 5, n / 125 % 5, n / 625} // Call chunk, a Read chunk, two Write chunks, Reply chunk
		call := func(most int) *Call2 {
			s := func(n int) []Segment { return make([]Segment, min(n, most)) }
			l := Lists{Reads: at(4, s(counts[1])...), Writes: [][]Segment{s(counts[2]), s(counts[3])}, Reply: s(counts[4])}
			message := inline(l)
			if counts[0] > 0 {
				message = external(l, s(counts[0])...)
			}
			h := new(Call2)
			if r := h.Parse(message); r.Refused() {
				t.Fatalf("%+v", r)
			}
			return h
		}
		limits := Limits2{ReadChunks: 1, WriteChunks: 2, ChunkSegments: 3, Segments: 7}
		switch r := call(5).Within(limits); {
		case !r.Refused():
		case r.Answer.Code != Err2Segments || r.Answer.Max == 0:
			t.Fatalf("%v: %+v", counts, r)
		default:
			refused++
			if again := call(int(r.Answer.Max)).Within(limits); again.Refused() {
				t.Fatalf("%v: %+v, then %+v", counts, r, again)
			}
		}
	}
	if refused == 0 {
		t.Error("no call was refused")
	}
}

// Only the handle that the call names may be invalidated, and only if the call's lists have it. Rows V2-62, V2-N14
// of docs/conformance.md.
func TestInvalidates(t *testing.T) {
	all := Lists{Reads: at(4, Segment{Handle: 2}), Writes: [][]Segment{{{Handle: 3}}, {{Handle: 4}}}, Reply: []Segment{{Handle: 5}}}
	for handle, want := range map[uint32]bool{0: false, 1: true, 2: true, 3: true, 4: true, 5: true, 6: false} {
		var h Call2
		if r := h.Parse(patched(external(all, Segment{Handle: 1}), 4, handle)); r.Refused() {
			t.Fatalf("%+v", r)
		}
		if got, ok := h.Invalidates(); ok != want || ok && got != handle {
			t.Errorf("handle %d: %d %v", handle, got, ok)
		}
	}
}

// A part's header has the number of bytes that come after the part. A part of a call without this word
// cannot be parsed.
func TestPartHeader(t *testing.T) {
	b := make([]byte, PartSize)
	want := Part2{Prefix2{7, Version2, 9, TypeCallMiddle}, 0xfffefdfc}
	want.Put(b)
	var h Part2
	if r := h.Parse(b); r.Refused() || h != want {
		t.Errorf("%+v %+v", h, r)
	}
	if r := h.Parse(b[:PartSize-1]); r.Answer.Code != Err2BadXDR || h.XID != 7 {
		t.Errorf("%+v %+v", h, r)
	}
}
