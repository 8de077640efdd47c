package rdma

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// A collector admits every call and records the data that came with it.
type collector struct {
	Calls
	calls   chan collected
	results func(w *xdr.Writer) // writes the results of each call, if not nil
}

type collected struct {
	message []byte
	placed  []rpc.Placed
	excised []xdr.Excised
}

func (k *collector) Admit(c *rpc.Call) (rpc.Plan, bool) {
	return rpc.Plan{Reply: rpc.ReplyHeader, Placement: true}, true
}

func (k *collector) Serve(c *rpc.Call) {
	got := collected{message: bytes.Clone(c.Message), placed: append([]rpc.Placed{}, c.Placed...)}
	for _, e := range c.Excised {
		got.excised = append(got.excised, xdr.Excised{Position: e.Position, Data: bytes.Clone(e.Data)})
	}
	k.calls <- got
	w := c.Way.Writer(rpc.ReplyHeader + 100)
	rpc.PutAccepted(w, be(c.Message), rpc.Success)
	if k.results != nil {
		k.results(w)
	}
	c.Way.Send()
}

func be(b []byte) uint32 { return uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3]) }

func newCollector(t testing.TB) (*bench, *collector) {
	b := newBench(t, benchConfig{})
	k := &collector{Calls: b.rpc, calls: make(chan collected, 16)}
	b.server.config.RPC = k
	return b, k
}

// A segment longer than one RDMA Read is fetched whole. Row P-3 of docs/conformance.md.
func TestLongSegments(t *testing.T) {
	b, k := newCollector(t)
	p := b.peer()
	want := make([]byte, maxRead+50_003)
	source := rand.NewChaCha8([32]byte{1})
	source.Read(want)
	for _, lengths := range [][]int{{len(want)}, {5, maxRead + 1, len(want) - maxRead - 6}, {maxRead, len(want) - maxRead}} {
		call := words(7, 0, 2, 1, 1, 1, 0, 0, 0, 0)
		answered(t, b.call(p, message{xid: 7, reads: at(40, cut(p.Expose(want, rdmacm.RemoteRead), lengths...)...), payload: call}))
		if got := ended(t, k.calls); len(got.excised) != 1 || !bytes.Equal(got.excised[0].Data, want) {
			t.Errorf("segments of %v: something else arrived", lengths)
		}
	}
}

// A result that is not eligible stays in the Payload, even if there is a Write chunk; the eligible
// result after it gets the chunk. Row V1-28 of docs/conformance.md.
func TestOnlyEligibleResultsArePlaced(t *testing.T) {
	b, k := newCollector(t)
	k.results = func(w *xdr.Writer) {
		w.Payload(pattern(10), false, nil)
		w.Payload(pattern(20), true, nil)
	}
	p := b.peer()
	sink := canary(100)
	r := p.Expose(sink, rdmacm.RemoteWrite)
	m := message{xid: 7, writes: [][]wire.Segment{cut(r, 50), cut(r, 50)}, payload: words(7, 0, 2, 1, 1, 1, 0, 0, 0, 0)}
	h, payload := answered(t, b.call(p, m))
	d := results(t, 7, payload)
	if got := d.Opaque(100); !bytes.Equal(got, pattern(10)) || d.Uint32() != 20 || d.Finish() != nil {
		t.Errorf("% x is in the Payload", payload)
	}
	if first, second := h.Writes.Next(), h.Writes.Next(); first.Bytes() != 20 || second.Bytes() != 0 {
		t.Errorf("%d and %d bytes are in the chunks", first.Bytes(), second.Bytes())
	}
	if !bytes.Equal(sink, append(pattern(20), canary(80)...)) {
		t.Errorf("% x was written", sink)
	}
	ended(t, k.calls)
}

// Several Read chunks of any sizes, with their segments interleaved, with or without a
// Position-Zero chunk, arrive whole and in the order of positions (V1-39). Each item has its own
// chunk (V1-33). The numbers are rows of docs/conformance.md.
func TestSeveralReadChunks(t *testing.T) {
	b, k := newCollector(t)
	p := b.peerWith(private(false, 4096, 4096), 256)
	r := rand.New(rand.NewPCG(5, 6))
	for xid := range uint32(60) {
		var reads []wire.ReadSegment
		var want []xdr.Excised
		position := 40
		for range r.IntN(6) {
			position += 4 * r.IntN(20)
			data := make([]byte, r.IntN(1<<r.IntN(15)))
			for i := range data {
				data[i] = byte(r.Uint32())
			}
			want = append(want, xdr.Excised{Position: uint32(position), Data: data})
			if len(data) == 0 {
				reads = append(reads, at(position, wire.Segment{Handle: 0xdead})...) // an empty segment, which is not read
			} else {
				reads = append(reads, at(position, cut(p.Expose(data, rdmacm.RemoteRead), odd(len(data))...)...)...)
			}
			position += padded(len(data)) + 4*r.IntN(2) // V1-33: adjacent items are two chunks all the same
			if len(data) == 0 {
				position += 4
			}
		}
		message := message{xid: xid, payload: append(words(xid, 0, 2, 1, 1, 1, 0, 0, 0, 0), pattern(100)...)}
		payload := message.payload
		if r.IntN(2) == 0 {
			message.proc, message.payload = wire.ProcNoMsg, nil
			reads = append(reads, at(0, cut(p.Expose(payload, rdmacm.RemoteRead), 50, 0, 90)...)...)
		}
		message.reads = interleave(r, reads)
		_, reply := answered(t, b.call(p, message))
		results(t, xid, reply)
		got := ended(t, k.calls)
		if !bytes.Equal(got.message, payload) || len(got.excised) != len(want) || len(got.placed) != len(want) {
			t.Fatalf("%d chunks of %d, %d bytes of Payload", len(got.excised), len(want), len(got.message))
		}
		for i, w := range want {
			e := got.excised[i]
			if e.Position != w.Position || !bytes.Equal(e.Data, w.Data) ||
				got.placed[i] != (rpc.Placed{Position: w.Position, Length: uint32(len(w.Data))}) {
				t.Fatalf("chunk %d: %d bytes at %d, want %d at %d", i, len(e.Data), e.Position, len(w.Data), w.Position)
			}
		}
	}
}

// A call is refused if a position is no multiple of four, whatever the binding says (V1-37, L-9),
// or if its XID is not that of the header (V1-70, V1-88, A-2). The numbers are rows of
// docs/conformance.md.
func TestJudgedWithoutABinding(t *testing.T) {
	b, k := newCollector(t)
	p := b.peer()
	call := words(7, 0, 2, 1, 1, 1, 0, 0, 0, 0)
	r := p.Expose(pattern(64), rdmacm.RemoteRead)
	zero := p.Expose(call, rdmacm.RemoteRead)
	other := p.Expose(words(8, 0, 2, 1, 1, 1, 0, 0, 0, 0), rdmacm.RemoteRead)
	for name, m := range map[string]message{
		"position 42":                    {payload: call, reads: at(42, cut(r, 4)...)},
		"position 43 beside a good one":  {payload: call, reads: append(at(40, cut(r, 4)...), at(43, cut(r, 1)...)...)},
		"position 41 of a Long Call":     {proc: wire.ProcNoMsg, reads: append(at(0, cut(zero, 40)...), at(41, cut(r, 4)...)...)},
		"another XID":                    {payload: words(8, 0, 2, 1, 1, 1, 0, 0, 0, 0)},
		"another XID, Long":              {proc: wire.ProcNoMsg, reads: at(0, cut(other, 40)...)},
		"another XID, Long with a chunk": {proc: wire.ProcNoMsg, reads: append(at(0, cut(other, 40)...), at(40, cut(r, 4)...)...)},
	} {
		t.Run(name, func(t *testing.T) {
			m.xid = 7
			if err := p.Send(m.bytes()); err != nil {
				t.Fatal(err)
			}
			wantError(t, p.Receive(), 7, 1, wire.ErrChunk)
			if len(k.calls) > 0 {
				t.Error("the call was served")
			}
		})
	}
}
