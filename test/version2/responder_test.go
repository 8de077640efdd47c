package version2

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// settled connects a scripted peer to a responder of version 2, and settles the version: both sides have announced their
// properties.
func settled(t *testing.T) peer {
	t.Helper()
	p := newResponder(t, rdma.Config{Version2: true}).dial(t)
	p.send(final(0x5e7))
	p.wantFinal()
	return p
}

// final is an RDMA2_CONNPROP_FINAL without properties.
func final(xid uint32) []byte { return message(xid, wire.TypeConnpropFinal, words(0)) }

// wantFinal receives the RDMA2_CONNPROP_FINAL of the other side.
func (p peer) wantFinal() wire.Properties {
	p.T.Helper()
	got := p.receive()
	q, _ := wire.ParsePrefix2(got)
	v := wire.DefaultProperties()
	if q.Type != wire.TypeConnpropFinal || q.Version != wire.Version2 || v.Parse(got).Refused() {
		p.T.Fatalf("got %x, want an RDMA2_CONNPROP_FINAL", got)
	}
	return v
}

// wantCount makes a call that is counted, and compares the number of calls that the responder has executed, this one
// included.
func (p peer) wantCount(xid uint32, count uint64) {
	p.T.Helper()
	p.send(call(xid, wire.Lists{}, bump(xid)))
	reply := p.wantReply(xid)
	if n := binary.BigEndian.Uint64(reply[len(reply)-8:]); n != count {
		p.T.Errorf("%d calls were executed, want %d", n, count)
	}
}

// An answer is what goes back for a message.
type answer struct {
	xid, version uint32
	body         wire.ErrorBody2
}

// refused returns the answer for XID 7 of version 2.
func refused(code wire.ErrorCode2) []answer {
	return []answer{{7, wire.Version2, wire.ErrorBody2{Code: code}}}
}

func segments(n int) []wire.Segment { return make([]wire.Segment, n) }

func readsAt(positions ...uint32) (l wire.Lists) {
	for _, p := range positions {
		l.Reads = append(l.Reads, wire.ReadSegment{Position: p, Segment: wire.Segment{Handle: p, Length: 4}})
	}
	return l
}

// external returns an RDMA2_CALL_EXTERNAL with the Call chunk at this position.
func external(xid, position uint32) []byte {
	return message(xid, wire.TypeCallExternal, words(0, 1, position, 9, 40, 0, 0, 0, 0, 0, 0))
}

// faultyMessages are messages that a responder refuses or drops, on a connection whose version is settled. XID 7 is that
// of the message.
var faultyMessages = map[string]struct {
	messages [][]byte
	want     []answer // none: nothing goes back
}{
	"4 bytes (V2-66)":                           {[][]byte{words(7)}, nil},
	"15 bytes (V2-66)":                          {[][]byte{message(7, wire.TypeCallInline)[:15]}, nil},
	"version 9 (V2-68, V2-71, V2-72)":           {[][]byte{versioned(9)}, []answer{{7, 9, wire.ErrorBody2{Code: wire.Err2Vers, Low: 1, High: 2}}}},
	"version 0 (V2-71)":                         {[][]byte{versioned(0)}, []answer{{7, 0, wire.ErrorBody2{Code: wire.Err2Vers, Low: 1, High: 2}}}},
	"version 1 (V2-74, V2-75)":                  {[][]byte{versioned(1)}, []answer{{7, 1, wire.ErrorBody2{Code: wire.Err2VersMismatch}}}},
	"type 0 (V2-49, V2-77, V2-78)":              {[][]byte{typed(0)}, refused(wire.Err2InvalHtype)},
	"type 3 (V2-49)":                            {[][]byte{typed(3)}, refused(wire.Err2InvalHtype)},
	"type 14 (V2-49)":                           {[][]byte{typed(14)}, refused(wire.Err2InvalHtype)},
	"type 2^32-1 (V2-49)":                       {[][]byte{typed(0xffffffff)}, refused(wire.Err2InvalHtype)},
	"properties again (V2-53)":                  {[][]byte{final(7)}, refused(wire.Err2InvalCont)},
	"more properties (V2-53)":                   {[][]byte{message(7, wire.TypeConnpropMiddle, words(0))}, refused(wire.Err2InvalCont)},
	"no lists (V2-82, V2-83)":                   {[][]byte{message(7, wire.TypeCallInline)}, refused(wire.Err2BadXDR)},
	"a word of 2 before an entry (V2-82)":       {[][]byte{message(7, wire.TypeCallInline, words(0, 2, 0, 0), bump(7))}, refused(wire.Err2BadXDR)},
	"2^32-1 segments (V2-82)":                   {[][]byte{message(7, wire.TypeCallInline, words(0, 0, 1, 0xffffffff), bump(7))}, refused(wire.Err2BadXDR)},
	"positions that go backwards (V2-21)":       {[][]byte{call(7, readsAt(200, 100), bump(7))}, refused(wire.Err2BadXDR)},
	"a position of 5 (V2-20)":                   {[][]byte{call(7, readsAt(5), bump(7))}, refused(wire.Err2BadXDR)},
	"position 0 (V2-57)":                        {[][]byte{call(7, readsAt(0), bump(7))}, refused(wire.Err2BadXDR)},
	"no Call chunk (V2-82)":                     {[][]byte{message(7, wire.TypeCallExternal, words(0, 0, 0, 0, 0))}, refused(wire.Err2BadXDR)},
	"a Call chunk at position 4 (V2-63)":        {[][]byte{external(7, 4)}, refused(wire.Err2BadXDR)},
	"another XID in the RPC message (V2-82)":    {[][]byte{call(7, wire.Lists{}, bump(8))}, refused(wire.Err2BadXDR)},
	"no RPC message (V2-82)":                    {[][]byte{call(7, wire.Lists{}, nil)}, refused(wire.Err2BadXDR)},
	"a reply as a call (V2-82)":                 {[][]byte{call(7, wire.Lists{}, words(7, 1, 0, 0, 0, 0))}, refused(wire.Err2BadXDR)},
	"an ineligible argument in a chunk (V2-18)": {[][]byte{call(7, readsAt(44), bump(7))}, refused(wire.Err2BadXDR)},
	"an error with an unknown code (V2-70)":     {[][]byte{message(7, wire.TypeError, words(57))}, nil},
	"an error without its code (V2-70)":         {[][]byte{message(7, wire.TypeError)}, nil},
	"an error for a call that is not there":     {[][]byte{message(7, wire.TypeError, words(2))}, nil},
	"a grant with an XID (V2-51)":               {[][]byte{message(7, wire.TypeGrant, words(1, 2, 3))}, nil},
}

// wantErrors receives these answers, in any order.
func (p peer) wantErrors(want []answer) {
	p.T.Helper()
	for want = slices.Clone(want); len(want) > 0; {
		got := p.receive()
		q, _ := wire.ParsePrefix2(got)
		body, _ := wire.ParseErrorBody2(got)
		i := slices.Index(want, answer{q.XID, q.Version, body})
		if q.Type != wire.TypeError || i < 0 {
			p.T.Fatalf("got %+v %+v, want one of %+v", q, body, want)
		}
		want = slices.Delete(want, i, i+1)
	}
}

// versioned returns a call of another version.
func versioned(version uint32) []byte {
	b := call(7, wire.Lists{}, bump(7))
	binary.BigEndian.PutUint32(b[4:], version)
	return b
}

// typed returns a call with another header type.
func typed(ht wire.HeaderType) []byte {
	b := call(7, wire.Lists{}, bump(7))
	binary.BigEndian.PutUint32(b[12:], uint32(ht))
	return b
}

// A responder refuses or drops each faulty message, does not execute it, and goes on with the connection. Rows V2-18, V2-20,
// V2-21, V2-49, V2-51, V2-53, V2-57, V2-63, V2-66, V2-67, V2-68, V2-69, V2-70, V2-71, V2-72, V2-74, V2-75, V2-77, V2-78,
// V2-82, V2-83 of docs/conformance.md.
func TestResponderRefuses(t *testing.T) {
	for name, c := range faultyMessages {
		t.Run(name, func(t *testing.T) {
			p := settled(t)
			for _, m := range c.messages {
				p.send(m)
			}
			p.wantErrors(c.want)
			p.wantCount(0x77, 1)
		})
	}
}

// faultyProperties are messages whose properties are refused. XID 7 is theirs.
var faultyProperties = map[string]struct {
	body []byte
	want wire.ErrorCode2
}{
	"3 bytes of a size (V2-45)":        {words(1, 1, 3, 0x00100000), wire.Err2BadPropval},
	"2 bytes of a size (V2-47)":        {words(1, 2, 2, 0x10000000), wire.Err2BadPropval},
	"a token beyond its value (V2-46)": {words(1, 6, 8, 5, 0x68656c6c), wire.Err2BadPropval},
	"beyond the message (V2-84)":       {words(1, 1, 4), wire.Err2BadPropval},
	"a good value before it (V2-85)":   {words(2, 2, 4, 16384, 1, 3, 0x00100000), wire.Err2BadPropval},
	"no count":                         {nil, wire.Err2BadXDR},
	"fewer than their count":           {words(2, 1, 4, 4096), wire.Err2BadXDR},
}

// A responder refuses properties that cannot be parsed, and goes on. Rows V2-45, V2-46, V2-47, V2-84, V2-85 of
// docs/conformance.md.
func TestResponderRefusesProperties(t *testing.T) {
	for name, c := range faultyProperties {
		t.Run(name, func(t *testing.T) {
			p := newResponder(t, rdma.Config{Version2: true}).dial(t)
			p.send(message(7, wire.TypeConnpropFinal, c.body))
			p.wantFinal()
			// The responder has one message outstanding until it hears more of the client (§4.3).
			p.send(call(8, wire.Lists{}, bump(8)))
			p.wantError(7, wire.Version2, wire.ErrorBody2{Code: c.want})
			p.wantReply(8)
			p.wantCount(0x77, 2)
		})
	}
}

// A message between properties is refused, and the properties go on. Row V2-52 of docs/conformance.md.
func TestCallBetweenProperties(t *testing.T) {
	p := newResponder(t, rdma.Config{Version2: true}).dial(t)
	p.send(message(6, wire.TypeConnpropMiddle, words(1, 0x7fffffff, 3, 0xaabbcc00)))
	p.wantFinal()
	p.send(call(7, wire.Lists{}, bump(7)))
	p.wantError(7, wire.Version2, wire.ErrorBody2{Code: wire.Err2InvalCont})
	p.send(final(8))
	p.wantCount(0x77, 1)
}

// A responder has limits for chunks, and says them. Rows V2-87, V2-89, V2-91, V2-94 of docs/conformance.md.
func TestResponderSaysItsLimits(t *testing.T) {
	many := make([]uint32, 300)
	for i := range many {
		many[i] = uint32(4 * (i + 20))
	}
	var writes [][]wire.Segment
	for range 300 {
		writes = append(writes, segments(1))
	}
	for name, c := range map[string]struct {
		lists wire.Lists
		code  wire.ErrorCode2
	}{
		"Read chunks (V2-87, V2-89)": {readsAt(many...), wire.Err2ReadChunks},
		"Write chunks (V2-91)":       {wire.Lists{Writes: writes}, wire.Err2WriteChunks},
		"segments (V2-94)":           {wire.Lists{Writes: [][]wire.Segment{segments(300)}}, wire.Err2Segments},
	} {
		t.Run(name, func(t *testing.T) {
			p := newResponder(t, rdma.Config{Version2: true, InlineReceive: 16384}).dial(t)
			p.send(final(0x5e7))
			p.wantFinal()
			p.send(call(7, c.lists, bump(7)))
			got := p.receive()
			q, _ := wire.ParsePrefix2(got)
			if body, _ := wire.ParseErrorBody2(got); q.Type != wire.TypeError || q.XID != 7 || body.Code != c.code || body.Max == 0 || body.Max >= 300 {
				t.Errorf("got %x, want %v with a limit", got, c.code)
			}
			p.wantCount(0x77, 1)
		})
	}
}

// A call that gets SYSTEM is not executed, and gets nothing more: here one whose Write chunk is within the limits, but has
// more segments than the header of a reply has room for. Row V2-105 of docs/conformance.md.
func TestSystemError(t *testing.T) {
	p := newResponder(t, rdma.Config{Version2: true, InlineReceive: 16384}).dial(t)
	p.send(final(0x5e7))
	p.wantFinal()
	p.send(call(7, wire.Lists{Writes: [][]wire.Segment{segments(256)}}, bump(7)))
	p.wantError(7, wire.Version2, wire.ErrorBody2{Code: wire.Err2System})
	p.wantCount(0x77, 1)
}

// Each chunk of a call that is too short for its result is named, with the bytes that it needs. Rows V2-96, V2-97, V2-98
// of docs/conformance.md.
func TestWriteChunkTooShort(t *testing.T) {
	p := settled(t)
	get := rpctest.Message(7, rpctest.GET, func(w *xdr.Writer) { w.Uint32(8191) })
	p.send(call(7, wire.Lists{Writes: [][]wire.Segment{{{Handle: 1, Length: 8190}}}}, get))
	p.wantError(7, wire.Version2, wire.ErrorBody2{Code: wire.Err2WriteResource, Index: 1, Needed: 8191})
	p.wantCount(0x77, 1)
}

// A client's first message of version 2 settles the version; a message of an unknown version before it settles nothing.
// Row V2-16 of docs/conformance.md.
func TestFirstMessages(t *testing.T) {
	p := newResponder(t, rdma.Config{Version2: true}).dial(t)
	p.send(versioned(9))
	p.wantError(7, 9, wire.ErrorBody2{Code: wire.Err2Vers, Low: 1, High: 2})
	p.send(final(8))
	p.wantFinal()
	p.wantCount(0x77, 1)
}

// types returns all header types of version 2 and the ones beside them, except that of an error, which is the same in
// all versions.
func types() (all []wire.HeaderType) {
	for ht := range wire.HeaderType(15) {
		if ht != wire.TypeError {
			all = append(all, ht)
		}
	}
	return all
}

// ofVersion9 returns a message of version 9 that would be one of this type in version 2, and would permit nothing more.
func ofVersion9(ht wire.HeaderType) []byte {
	return append(words(7, 9, 0, uint32(ht)), bump(7)...)
}

// In a message of an unknown version no other word than the XID has a meaning, neither the type nor the credits: each such
// message gets ERR_VERS, whatever version 2 would take it for. Row V2-N25 of docs/conformance.md.
func TestResponderReadsTheVersionFirst(t *testing.T) {
	p := settled(t)
	for _, ht := range types() {
		p.send(ofVersion9(ht))
		p.wantError(7, 9, wire.ErrorBody2{Code: wire.Err2Vers, Low: 1, High: 2})
	}
	p.wantCount(0x77, 1)
}
