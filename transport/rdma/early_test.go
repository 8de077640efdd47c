package rdma

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// A call that the program refuses is answered before the server makes an RDMA Read or
// reserves memory for it. Of a Long call the server reads only the start.
func TestStrangersReserveNothing(t *testing.T) {
	nothingLeft(t)
	b := newBench(t, benchConfig{})
	b.program.Judging = func(_ *rpc.Arrived, j *rpc.Judgement) rpc.Outcome {
		j.Early = true
		return rpc.Done
	}
	p := b.peer()
	const n = 900_000
	data := p.Expose(make([]byte, n), rdmacm.RemoteRead)
	m, position := putCall(1, "name", n)
	want := func(call message) {
		t.Helper()
		if err := p.Send(call.bytes()); err != nil {
			t.Fatal(err)
		}
		reply := p.Receive()
		var h wire.Header
		if err := h.Parse(reply.Bytes); err != nil {
			t.Fatal(err)
		}
		d := xdr.NewDecoder(reply.Bytes[h.Size:])
		if _, _, err := rpc.ReadReply(d); err != nil || d.Uint32() != rpctest.Early {
			t.Errorf("reply: %v", err)
		}
	}
	want(message{xid: 1, reads: at(position, cut(data, n)...), payload: m})
	if pulled, peak := b.server.Stats().BytesRead.Load(), b.pool.Stats().Peak; pulled != 0 || peak != 0 {
		t.Errorf("%d bytes were pulled, %d reserved for a stranger's Chunked call", pulled, peak)
	}

	// A Long call of the same stranger: the server reads only the bytes by which it judges
	// the call.
	long := append(rpctest.Message(2, rpctest.ECHO, func(w *xdr.Writer) { w.Uint32(rpctest.MaxEcho) }), pattern(rpctest.MaxEcho)...)
	words := p.Expose(long, rdmacm.RemoteRead)
	sink := p.Expose(make([]byte, 1<<20), rdmacm.RemoteWrite)
	want(message{xid: 2, proc: wire.ProcNoMsg, reads: at(0, cut(words, len(long))...), reply: cut(sink, 1<<20)})
	if pulled, peak := b.server.Stats().BytesRead.Load(), b.pool.Stats().Peak; pulled != rpc.AdmitPrefix || peak > 4096 {
		t.Errorf("%d bytes were pulled, %d reserved for a stranger's Long call", pulled, peak)
	}
}
