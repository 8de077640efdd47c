package rdma

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/rdmatest"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire/wiretest"
)

// serverEnd returns the server's end of p's connection.
func serverEnd(p *rdmatest.Peer) *rdmatest.Conn { return p.Conn().(*rdmatest.Conn).Other() }

// receivesKept fails the test unless the server has promised every used receive again; a dropped
// message uses one, too. Only the device in memory counts them.
func receivesKept(t testing.TB, p *rdmatest.Peer, credits int) {
	t.Helper()
	if elsewhere != nil {
		return
	}
	if n := serverEnd(p).Promised(); n != credits+spareReceives {
		t.Errorf("%d receives are promised, want %d", n, credits+spareReceives)
	}
}

// silent sends a message and fails the test if it gets an answer: the next answer must be to the
// NULL that follows.
func (b *bench) silent(p *rdmatest.Peer, m []byte) {
	b.t.Helper()
	if err := p.Send(m); err != nil {
		b.t.Fatal(err)
	}
	b.alive(p)
	receivesKept(b.t, p, DefaultCredits)
}

// A message below 28 bytes gets no answer (V1-80), even if it looks like an ERR_CHUNK. The
// numbers are rows of docs/conformance.md.
func TestShortMessagesAreDropped(t *testing.T) {
	b := newBench(t, benchConfig{})
	p := b.peerWith(nil, 256)
	for n := range 28 { // RFC 8166 §4.5
		b.silent(p, wiretest.Hex(wiretest.E)[:n])
		b.silent(p, wiretest.Hex(wiretest.A)[:n])
		xid := uint32(0)
		if n >= wire.PrefixSize {
			xid = 0x1a2b3c4d
		}
		b.wantFault(faultShort, answerDrop, xid)
	}
}

// The server drops an RDMA_ERROR, whatever its version and length. Rows V1-74, V1-73 and A-3 of
// docs/conformance.md.
func TestErrorsFromPeersAreDropped(t *testing.T) {
	b := newBench(t, benchConfig{})
	p := b.peer()
	for _, v := range []string{wiretest.E, wiretest.F} {
		b.silent(p, wiretest.Hex(v))
	}
	b.wantFault(faultStrayError, answerDrop, 0x1a2b3c52)
	for _, v := range []string{
		`1a2b3c52 00000001 00000020 00000004 00000007`, // V1-86
		`1a2b3c52 00000009 00000020 00000004 00000007 00000000 00000000 00000000`} {
		b.silent(p, wiretest.Hex(v))
		b.wantFault(faultErrorCode, answerDrop, 0x1a2b3c52)
	}
}

// A reply that matches no call of this side is dropped.
func TestRepliesToNothingAreDropped(t *testing.T) {
	b := newBench(t, benchConfig{})
	p := b.peer()
	b.silent(p, message{xid: 0x77, payload: words(0x77, 1, 0, 0, 0, 0)}.bytes())
	b.wantFault(faultStrayReply, answerDrop, 0x77)
}

// The server drops an RDMA_DONE, in both its forms. Rows V1-79, V1-78 and L-3 of
// docs/conformance.md.
func TestDoneIsDropped(t *testing.T) {
	b := newBench(t, benchConfig{})
	p := b.peerWith(nil, 256)
	for range 40 { // more than there are spare receives
		b.silent(p, words(5, 1, 32, uint32(wire.ProcDone)))
		b.silent(p, words(5, 1, 32, uint32(wire.ProcDone), 0, 0, 0))
	}
	b.wantFault(faultDone, answerDrop, 5)
}

// If a message ends inside its header, it is answered with ERR_CHUNK if it has at least 28 bytes,
// and not at all otherwise. The messages are the vectors A to D and G of wiretest. Row V1-80 of
// docs/conformance.md.
func TestTruncatedHeaders(t *testing.T) {
	b := newBench(t, benchConfig{})
	p := b.peerWith(private(false, 4096, 4096), 512)
	for _, v := range []string{wiretest.A, wiretest.B, wiretest.C, wiretest.D, wiretest.G} {
		whole := wiretest.Hex(v)
		xid := uint32(whole[0])<<24 | uint32(whole[1])<<16 | uint32(whole[2])<<8 | uint32(whole[3])
		for n := range len(whole) {
			if n < 28 { // RFC 8166 §4.5
				b.silent(p, whole[:n])
				continue
			}
			if err := p.Send(whole[:n]); err != nil {
				t.Fatal(err)
			}
			wantError(t, p.Receive(), xid, 1, wire.ErrChunk)
			b.wantFault(faultTruncated, answerChunk, xid)
		}
	}
}

// A message of another version is answered with ERR_VERS, which repeats that version (V1-87, V1-83,
// vector E of wiretest). Only ERR_VERS may do so (V1-71). XID, version and procedure have the same
// offsets in every version (V1-72). The numbers are rows of docs/conformance.md.
func TestVersionMismatch(t *testing.T) {
	b := newBench(t, benchConfig{})
	p := b.peer()
	for _, version := range []uint32{0, 2, 3, 1<<32 - 1} {
		m := words(0x1a2b3c51, version, 32, uint32(wire.ProcMsg), 0, 0, 0)
		if err := p.Send(m); err != nil {
			t.Fatal(err)
		}
		wantError(t, p.Receive(), 0x1a2b3c51, version, wire.ErrVers)
		b.wantFault(faultVersion, answerVers, 0x1a2b3c51)
	}
	// The version is judged before the procedure.
	p.Send(words(9, 2, 32, 77, 0, 0, 0))
	wantError(t, p.Receive(), 9, 2, wire.ErrVers)
	b.alive(p)
	receivesKept(t, p, DefaultCredits)
}

// Invalid headers are answered with ERR_CHUNK, once each, and nothing is moved or executed (V1-76,
// V1-75, L-4, V1-81, V1-88, V1-84, A-4). An RDMA_NOMSG without a chunk is invalid (V1-68), and so
// is a position that is no multiple of four (V1-37, L-9). The numbers are rows of
// docs/conformance.md.
func TestBadHeaders(t *testing.T) {
	b := newBench(t, benchConfig{server: Config{maxCall: 100_000}})
	p := b.peer()
	memory := make([]byte, 4096)
	r := p.Expose(memory, rdmacm.RemoteRead|rdmacm.RemoteWrite)
	whole := cut(r, 4096)
	null := rpctest.Message(0x77, rpctest.NULL, nil)
	put, pos := putCall(0x77, "name", 4096)
	for name, c := range map[string]struct {
		fault Fault
		m     message
	}{
		"RDMA_MSGP":                                 {faultProcedure, message{proc: wire.ProcMsgP, payload: null}},
		"rdma_proc 5":                               {faultProcedure, message{proc: 5, payload: null}},
		"rdma_proc 2^32-1":                          {faultProcedure, message{proc: 1<<32 - 1, payload: null}},
		"NOMSG, all three fields absent (V1-68)":    {faultNoPayload, message{proc: wire.ProcNoMsg}},
		"NOMSG with a Write list only":              {faultNoPayload, message{proc: wire.ProcNoMsg, writes: [][]wire.Segment{whole}}},
		"NOMSG with a Reply chunk only":             {faultNoPayload, message{proc: wire.ProcNoMsg, reply: whole}},
		"NOMSG, the message behind the header":      {faultNoPayload, message{proc: wire.ProcNoMsg, payload: null}},
		"... and a Reply chunk":                     {faultNoPayload, message{proc: wire.ProcNoMsg, reply: whole, payload: null}},
		"... and a Write list":                      {faultNoPayload, message{proc: wire.ProcNoMsg, writes: [][]wire.Segment{whole}, payload: null}},
		"... and a Read chunk that is elsewhere":    {faultNoPayload, message{proc: wire.ProcNoMsg, reads: at(pos, whole...), payload: put}},
		"NOMSG without a position-zero chunk":       {faultNoPayload, message{proc: wire.ProcNoMsg, reads: at(4, whole...)}},
		"NOMSG with an empty position-zero chunk":   {faultNoPayload, message{proc: wire.ProcNoMsg, reads: at(0, cut(r, 0)...)}},
		"NOMSG with a position-zero chunk of 3":     {faultNoPayload, message{proc: wire.ProcNoMsg, reads: at(0, cut(r, 3)...)}},
		"MSG with a position-zero chunk (A-8)":      {faultTwoPayloads, message{reads: at(0, whole...), payload: null}},
		"MSG without a Payload":                     {faultNoPayload, message{}},
		"MSG with a Payload of 3 bytes":             {faultNoPayload, message{payload: null[:3]}},
		"position that is no multiple of four":      {faultPosition, message{reads: at(pos+1, whole...), payload: put}},
		"position 2^32-1":                           {faultPosition, message{reads: at(1<<32-1, whole...), payload: put}},
		"padding as a chunk of its own (L-9)":       {faultPosition, message{reads: append(at(pos, cut(r, 4095)...), at(pos+4095, cut(r, 1)...)...), payload: put}},
		"segment that wraps":                        {faultWraps, message{reads: at(pos, seg(r.STag(), 4096, 1<<64-100)), payload: put}},
		"Write segment that wraps":                  {faultWraps, message{writes: [][]wire.Segment{{seg(r.STag(), 4096, 1<<64-100)}}, payload: null}},
		"Reply segment that wraps":                  {faultWraps, message{reply: []wire.Segment{seg(r.STag(), 4096, 1<<64-100)}, payload: null}},
		"XID of another call":                       {faultXID, message{payload: rpctest.Message(0x78, rpctest.NULL, nil)}},
		"neither call nor reply":                    {faultNotACall, message{payload: words(0x77, 2, 2, rpctest.Number, 1, 0, 0, 0, 0, 0)}},
		"a position-zero chunk beyond maxCall":      {faultTooMuch, message{proc: wire.ProcNoMsg, reads: at(0, cut(r, 4096, 96_000)...)}},
		"a Read chunk of 2 GiB (V1-98)":             {faultTooMuch, message{reads: at(pos, seg(r.STag(), 2<<30, 0)), payload: put}},
		"Read chunks of 4 GiB together (V1-98)":     {faultTooMuch, message{reads: at(pos, seg(r.STag(), 1<<32-1, 0), seg(r.STag(), 4097, 0)), payload: put}},
		"segments that together are too much":       {faultTooMuch, message{reads: at(pos, cut(r, 40_000, 30_000, 30_001)...), payload: put}},
		"chunks that together are too much":         {faultTooMuch, message{reads: append(at(pos, cut(r, 40_000, 30_000)...), at(pos+70_004, cut(r, 30_001)...)...), payload: put}},
		"one byte too much":                         {faultTooMuch, message{reads: at(pos, cut(r, 100_001)...), payload: put}},
		"as much as a call may move":                {faultIneligible, message{reads: at(40, cut(r, 100_000)...), payload: rpctest.Message(0x77, rpctest.NULL, nil)}},
		"a Read chunk beyond the procedure (V1-99)": {faultIneligible, message{reads: at(pos, cut(r, 99_999)...), payload: rpctest.Message(0x77, rpctest.NULL, nil)}},
		"a header that the echo of does not fit":    {faultEcho, message{writes: [][]wire.Segment{make([]wire.Segment, 62)}, payload: null}},
		"... although a Reply chunk is offered":     {faultEcho, message{writes: [][]wire.Segment{make([]wire.Segment, 62)}, reply: whole, payload: rpctest.Message(0x77, rpctest.BUMP, func(w *xdr.Writer) { w.String("") })}},
		"a Read chunk before the arguments (V1-94)": {faultIneligible, message{reads: at(8, whole...), payload: put}},
		"a Read chunk over a name (V1-95, L-13)":    {faultIneligible, message{reads: at(44, cut(r, 4)...), payload: put}},
		"a Read chunk over ECHO (V1-94)":            {faultIneligible, message{reads: at(44, cut(r, 4)...), payload: rpctest.Message(0x77, rpctest.ECHO, func(w *xdr.Writer) { w.Uint32(4) })}},
		"two Read chunks where one is eligible":     {faultIneligible, message{reads: append(at(pos, cut(r, 8)...), at(pos+8, cut(r, 8)...)...), payload: put}},
	} {
		t.Run(name, func(t *testing.T) {
			m := c.m
			m.xid = 0x77
			if err := p.Send(m.bytes()); err != nil {
				t.Fatal(err)
			}
			wantError(t, p.Receive(), 0x77, 1, wire.ErrChunk)
			b.wantFault(c.fault, answerChunk, 0x77)
		})
	}
	b.alive(p)
	receivesKept(t, p, DefaultCredits)
	for _, e := range seen(p) {
		if e.Op == rdmacm.OpRead || e.Op == rdmacm.OpWrite {
			t.Errorf("something was moved: %v", e)
		}
	}
	if n := b.pool.Stats().Peak; n != 0 {
		t.Errorf("%d bytes of memory were reserved", n)
	}
	for i := range b.program.Served {
		if n := b.program.Served[i].Load(); i != rpctest.NULL && n > 0 {
			t.Errorf("procedure %d was executed", i)
		}
	}
}

// The server judges a Long Call's message after it has fetched it: its XID (V1-88), its type, and
// that only items were reduced that may be reduced (V1-94, V1-95, A-4). The numbers are rows of
// docs/conformance.md.
func TestBadLongCalls(t *testing.T) {
	b := newBench(t, benchConfig{})
	p := b.peer()
	put, pos := putCall(0x77, "name", 4096)
	data := p.Expose(make([]byte, 4096), rdmacm.RemoteRead)
	for name, c := range map[string]struct {
		fault   Fault
		payload []byte
		reads   []wire.ReadSegment
	}{
		"XID of another call":        {fault: faultXID, payload: rpctest.Message(0x78, rpctest.NULL, nil)},
		"a reply":                    {fault: faultNotACall, payload: words(0x77, 1, 0, 0, 0, 0)},
		"four bytes":                 {fault: faultNotACall, payload: words(0x77)},
		"a Read chunk over the name": {fault: faultIneligible, payload: put, reads: at(44, cut(data, 4)...)},
		"a Read chunk of NULL":       {fault: faultIneligible, payload: rpctest.Message(0x77, rpctest.NULL, nil), reads: at(40, cut(data, 4)...)},
		"a Read chunk behind PUT's":  {fault: faultIneligible, payload: put, reads: at(pos+4, cut(data, 4)...)},
	} {
		t.Run(name, func(t *testing.T) {
			zero := p.Expose(c.payload, rdmacm.RemoteRead)
			m := message{xid: 0x77, proc: wire.ProcNoMsg, reads: append(at(0, cut(zero, len(c.payload))...), c.reads...)}
			if err := p.Send(m.bytes()); err != nil {
				t.Fatal(err)
			}
			wantError(t, p.Receive(), 0x77, 1, wire.ErrChunk)
			b.wantFault(c.fault, answerChunk, 0x77)
		})
	}
	b.alive(p)
	if b.program.Served[rpctest.PUT].Load() != 0 {
		t.Error("PUT was executed")
	}
	for _, e := range seen(p) {
		if e.Op == rdmacm.OpRead && e.Remote.STag == data.STag() {
			t.Errorf("a chunk was pulled that may not be: %v", e)
		}
	}
}

// If the header is valid and the arguments do not decode, the answer is an RPC reply, GARBAGE_ARGS,
// in RDMA_MSG, with the Write list returned. Row V1-89 of docs/conformance.md.
func TestGarbageArguments(t *testing.T) {
	b := newBench(t, benchConfig{})
	p := b.peer()
	memory := p.Expose(make([]byte, 8192), rdmacm.RemoteRead|rdmacm.RemoteWrite)
	put, pos := putCall(0x77, "name", 4096)
	for name, m := range map[string]message{
		"arguments cut off":          {payload: rpctest.Message(0x77, rpctest.ECHO, func(w *xdr.Writer) { w.Uint32(400) })},
		"arguments too many":         {payload: append(rpctest.Message(0x77, rpctest.NULL, nil), 0, 0, 0, 0)},
		"a chunk that PUT lacks":     {payload: put},
		"trailing bytes behind PUT":  {payload: append(bytes.Clone(put), 1, 2, 3, 4), reads: at(pos, cut(memory, 4096)...)},
		"a Long Call with arguments": {proc: wire.ProcNoMsg, payload: rpctest.Message(0x77, rpctest.ECHO, func(w *xdr.Writer) { w.Uint32(400) })},
	} {
		t.Run(name, func(t *testing.T) {
			m.xid = 0x77
			m.writes = [][]wire.Segment{cut(memory, 100, 200)}
			m.reply = cut(memory, 300)
			if m.proc == wire.ProcNoMsg {
				zero := p.Expose(m.payload, rdmacm.RemoteRead)
				m.reads, m.payload = at(0, cut(zero, len(m.payload))...), nil
			}
			h, payload := answered(t, b.call(p, m))
			if h.Proc != wire.ProcMsg || !bytes.Equal(payload, words(0x77, 1, 0, 0, 0, 4)) {
				t.Errorf("%v with % x", h.Proc, payload)
			}
			wantUnused(t, &h, m)
		})
	}
}

// wantUnused fails the test unless every chunk that m offered came back with lengths of 0.
func wantUnused(t testing.TB, h *wire.Header, m message) {
	t.Helper()
	zeroed := func(s []wire.Segment) []wire.Segment {
		z := append([]wire.Segment{}, s...)
		for i := range z {
			z[i].Length = 0
		}
		return z
	}
	if speaking2 {
		m.reply = nil // a reply of version 2 does not return a Reply chunk that it does not use
	}
	if h.Writes.Len() != len(m.writes) || h.Reply.Present != (m.reply != nil) {
		t.Fatalf("%d Write chunks came back of %d; Reply chunk: %v", h.Writes.Len(), len(m.writes), h.Reply.Present)
	}
	l := h.Writes
	for i, w := range m.writes {
		if got := segmentsOf(l.Next()); fmt.Sprint(got) != fmt.Sprint(zeroed(w)) {
			t.Errorf("Write chunk %d came back as %v, want %v", i, got, zeroed(w))
		}
	}
	if got := segmentsOf(h.Reply.WriteChunk); m.reply != nil && fmt.Sprint(got) != fmt.Sprint(zeroed(m.reply)) {
		t.Errorf("the Reply chunk came back as %v, want %v", got, zeroed(m.reply))
	}
}

// RPC errors return the chunk lists as well (RFC 8166 §4.3.2, §4.3.3): PROG_UNAVAIL, PROG_MISMATCH,
// PROC_UNAVAIL, MSG_DENIED. A call of the Connection Configuration Protocol is an ordinary
// PROG_UNAVAIL, and the connection goes on (row L-2 of docs/conformance.md).
func TestErrorRepliesReturnTheLists(t *testing.T) {
	b := newBench(t, benchConfig{})
	p := b.peer()
	memory := p.Expose(make([]byte, 8192), rdmacm.RemoteWrite)
	head := func(rpcvers, program, version, procedure uint32) []byte {
		return words(0x77, 0, rpcvers, program, version, procedure, 0, 0, 0, 0)
	}
	for name, c := range map[string]struct{ call, want []byte }{
		"CCP (L-2)":       {head(2, 100417, 1, 1), words(0x77, 1, 0, 0, 0, 1)},
		"version unknown": {head(2, rpctest.Number, 9, 0), words(0x77, 1, 0, 0, 0, 2, 1, 3)},
		"procedure":       {head(2, rpctest.Number, 1, 99), words(0x77, 1, 0, 0, 0, 3)},
		"RPC version 3":   {head(3, rpctest.Number, 1, 0), words(0x77, 1, 1, 0, 2, 2)},
	} {
		t.Run(name, func(t *testing.T) {
			m := message{xid: 0x77, payload: c.call, writes: [][]wire.Segment{cut(memory, 100), {}}, reply: cut(memory, 8, 9)}
			h, payload := answered(t, b.call(p, m))
			if !bytes.Equal(payload, c.want) {
				t.Errorf("% x, want % x", payload, c.want)
			}
			wantUnused(t, &h, m)
		})
	}
	b.alive(p)
}

// The bytes that follow the header of an RDMA_NOMSG are ignored. Row A-8 of docs/conformance.md.
func TestBytesBehindNoMsgAreIgnored(t *testing.T) {
	b := newBench(t, benchConfig{})
	p := b.peer()
	null := rpctest.Message(5, rpctest.NULL, nil)
	zero := p.Expose(null, rdmacm.RemoteRead)
	_, payload := answered(t, b.call(p, message{xid: 5, proc: wire.ProcNoMsg, reads: at(0, cut(zero, len(null))...),
		payload: words(1, 2, 3)}))
	results(t, 5, payload)
}
