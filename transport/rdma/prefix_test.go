package rdma

import (
	"bytes"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// The served call has the bytes that the program has judged, even if the peer changes its
// Position-Zero chunk, the XID included, after the judgement, and however the peer cut the chunk.
// Row A-2 of docs/conformance.md.
func TestServedCallHasTheJudgedBytes(t *testing.T) {
	nothingLeft(t)
	b := newBench(t, benchConfig{})
	var change func()
	b.program.Judging = func(*rpc.Arrived, *rpc.Judgement) rpc.Outcome {
		change()
		return rpc.Done
	}
	p := b.peer()
	want := pattern(9001)
	sink := make([]byte, 12<<10)
	room := p.Expose(sink, rdmacm.RemoteWrite)
	const k = rpc.AdmitPrefix
	for i, lengths := range [][]int{{0}, {1, 0}, {k - 1, 0}, {k, 0}, {k + 1, 0}, {0, k, 0, 0}, {7, 0, k, 100, 0}} {
		xid := uint32(100 + i)
		call := rpctest.Message(xid, rpctest.ECHO, func(w *xdr.Writer) { w.Opaque(want) })
		// The last length covers the rest of the call.
		rest := len(call)
		for _, n := range lengths {
			rest -= n
		}
		lengths[len(lengths)-1] += rest
		r := p.Expose(call, rdmacm.RemoteRead)
		change = func() { copy(call, bytes.Repeat([]byte{0xff}, k)) }
		before := b.server.Stats().BytesRead.Load()
		m := b.call(p, message{xid: xid, proc: wire.ProcNoMsg, reads: at(0, cut(r, lengths...)...), reply: cut(room, len(sink))})
		h, _ := answered(t, m)
		if h.Proc != wire.ProcNoMsg {
			t.Fatalf("cut %v: answered by %v", lengths, h.Proc)
		}
		d := results(t, xid, sink[:h.Reply.At(0).Length])
		if got := d.Opaque(rpctest.MaxEcho); !bytes.Equal(got, want) {
			t.Errorf("cut %v: the call that was served is not the one that was judged", lengths)
		}
		if n := b.server.Stats().BytesRead.Load() - before; n != int64(len(call)) {
			t.Errorf("cut %v: %d bytes are read of a call of %d", lengths, n, len(call))
		}
	}
}
