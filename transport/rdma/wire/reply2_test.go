package wire

import (
	"bytes"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire/wiretest"
)

// A reply returns each Write chunk with its handles and offsets, and with lengths that say what was written.
// Only an RDMA2_REPLY_EXTERNAL returns the Reply chunk. Rows V2-23, V2-59, V2-N10 of docs/conformance.md.
func TestReplyReturnsTheOffer(t *testing.T) {
	var h Call2
	if r := h.Parse(inline(Lists{
		Writes: [][]Segment{{{1, 1000, 0x10}, {2, 1000, 0x20}, {3, 1000, 0x30}}, {}, {{4, 500, 0x40}}},
		Reply:  []Segment{{5, 100, 0x50}, {6, 100, 0x60}},
	})); r.Refused() {
		t.Fatalf("%+v", r)
	}
	for name, c := range map[string]struct {
		ht      HeaderType
		used    []uint64
		replied uint64
		want    string
	}{
		"used in part": {TypeReplyInline, []uint64{1001, 0, 500}, 0, `
			00000001 00000003 00000001 000003e8 00000000 00000010 00000002 00000001 00000000 00000020
			                  00000003 00000000 00000000 00000030
			00000001 00000000
			00000001 00000001 00000004 000001f4 00000000 00000040
			00000000`},
		"unused": {TypeReplyInline, nil, 0, `
			00000001 00000003 00000001 00000000 00000000 00000010 00000002 00000000 00000000 00000020
			                  00000003 00000000 00000000 00000030
			00000001 00000000
			00000001 00000001 00000004 00000000 00000000 00000040
			00000000`},
		"external": {TypeReplyExternal, []uint64{3000}, 104, `
			00000001 00000003 00000001 000003e8 00000000 00000010 00000002 000003e8 00000000 00000020
			                  00000003 000003e8 00000000 00000030
			00000001 00000000
			00000001 00000001 00000004 00000000 00000000 00000040
			00000000
			00000001 00000002 00000005 00000064 00000000 00000050 00000006 00000004 00000000 00000060`},
	} {
		want := append([]byte{0, 0, 0, 7, 0, 0, 0, 2, 0, 0, 0, 9, 0, 0, 0, byte(c.ht)}, wiretest.Hex(c.want)...)
		n := h.ReplySize2(c.ht)
		b := bytes.Repeat([]byte{0xee}, n+8)
		h.PutReply2(b, Prefix2{7, Version2, 9, c.ht}, c.used, c.replied)
		if !bytes.Equal(b[:n], want) || !bytes.Equal(b[n:], bytes.Repeat([]byte{0xee}, 8)) {
			t.Errorf("%s:\n%x, want\n%x", name, b, want)
		}
		var reply Reply2
		if r := reply.Parse(b); r.Refused() || reply.Size != n || reply.Writes.Len() != 3 || reply.Reply.Present != (c.ht == TypeReplyExternal) {
			t.Errorf("%s: %+v %+v", name, reply, r)
		}
	}
}

// A reply that cannot be parsed, or whose header has no Reply chunk where it must have one, ends its call:
// nothing goes back. Rows V2-59 and V2-82 of docs/conformance.md.
func TestReplyFaults(t *testing.T) {
	for name, hex := range map[string]string{
		"no Reply chunk (V2-59)":        `00000022 00000002 00000030 0000000b 00000000 00000000`,
		"discriminator of Write list":   `00000022 00000002 00000030 0000000d 00000002`,
		"discriminator of Reply chunk":  `00000022 00000002 00000030 0000000b 00000000 00000002`,
		"2^32-1 segments":               `00000022 00000002 00000030 0000000d 00000001 ffffffff 00000000`,
		"2^28 segments, external":       `00000022 00000002 00000030 0000000b 00000000 00000001 10000000 00000000`,
		"the Reply chunk is cut":        `00000022 00000002 00000030 0000000b 00000000 00000001 00000001 00000001`,
		"no word of the Reply chunk":    `00000022 00000002 00000030 0000000b 00000000`,
		"a Write list without its end":  `00000022 00000002 00000030 0000000d 00000001 00000000`,
		"no Write list, where one must": `00000022 00000002 00000030 0000000d`,
	} {
		var h Reply2
		if r := h.Parse(wiretest.Hex(hex)); !r.Refused() || r.Answer != (ErrorBody2{}) || h.XID != 0x22 {
			t.Errorf("%s: %+v %+v", name, h, r)
		}
	}
}

// The RPC message has the XID of its header, and the direction that the header type says. Rows V2-37, V2-39,
// V2-54, V2-55, V2-58, V2-60 of docs/conformance.md.
func TestJudgeMessage(t *testing.T) {
	call, reply := wiretest.Hex(`00000007 00000000 00000002`), wiretest.Hex(`00000007 00000001 00000000`)
	for name, c := range map[string]struct {
		ht      HeaderType
		message []byte
		good    bool
		code    ErrorCode2
	}{
		"a call":                                {TypeCallInline, call, true, 0},
		"an external call":                      {TypeCallExternal, call, true, 0},
		"a reply":                               {TypeReplyInline, reply, true, 0},
		"an external reply":                     {TypeReplyExternal, reply, true, 0},
		"a reply as a call":                     {TypeCallInline, reply, false, Err2BadXDR},
		"a reply as an external call":           {TypeCallExternal, reply, false, Err2BadXDR},
		"a call as a reply":                     {TypeReplyInline, call, false, 0},
		"another XID (V2-54, V2-55)":            {TypeCallInline, append([]byte{1}, call[1:]...), false, Err2BadXDR},
		"another XID, last byte (V2-54)":        {TypeCallExternal, append([]byte{0, 0, 0, 8}, call[4:]...), false, Err2BadXDR},
		"a reply's (V2-58, V2-60)":              {TypeReplyInline, append([]byte{1}, reply[1:]...), false, 0},
		"a call's first part (V2-55)":           {TypeCallMiddle, call, true, 0},
		"a part of another XID (V2-55)":         {TypeCallMiddle, append([]byte{1}, call[1:]...), false, Err2BadXDR},
		"a reply as a part of a call":           {TypeCallMiddle, reply, false, Err2BadXDR},
		"a reply's first part (V2-60)":          {TypeReplyMiddle, reply, true, 0},
		"a reply's part of another XID (V2-60)": {TypeReplyMiddle, append([]byte{1}, reply[1:]...), false, 0},
		"a call as a part of a reply":           {TypeReplyMiddle, call, false, 0},
		"no message":                            {TypeCallInline, nil, false, Err2BadXDR},
		"three bytes":                           {TypeCallInline, call[:3], false, Err2BadXDR},
		"its XID alone":                         {TypeCallInline, call[:7], false, Err2BadXDR},
		"message type 2":                        {TypeCallInline, wiretest.Hex(`00000007 00000002`), false, Err2BadXDR},
	} {
		r := Prefix2{XID: 7, Version: Version2, Type: c.ht}.JudgeMessage(c.message)
		if r.Refused() == c.good || r.Answer != (ErrorBody2{Code: c.code}) {
			t.Errorf("%s: %+v", name, r)
		}
	}
}
