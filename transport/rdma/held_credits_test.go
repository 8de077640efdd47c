package rdma

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/internal/clientaddr"
	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/rdmatest"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// While the calls of a client occupy the memory that it may have, replies and RDMA_ERRORs grant the
// credits that a connection may always use. Afterwards they grant as many as before.
func TestFullClientGetsFewCredits(t *testing.T) {
	const credits, ceiling = 60, 4 << 20
	b := newBench(t, benchConfig{pool: mem.Config{Ceiling: ceiling}, server: Config{Credits: credits}})
	p := b.peer()
	xid := uint32(0)
	want := func(credits uint32) {
		t.Helper()
		xid++
		p.Send(message{xid: xid, payload: rpctest.Message(xid, rpctest.NULL, nil)}.bytes())
		h, _ := answered(t, p.Receive())
		if h.Credits != credits {
			t.Errorf("a reply grants %d credits, want %d", h.Credits, credits)
		}
		p.Send(words(xid, 2, 0, 0, 0, 0, 0))
		if q, _ := wire.ParsePrefix(p.Receive().Bytes); q.Credits != credits {
			t.Errorf("an RDMA_ERROR grants %d credits, want %d", q.Credits, credits)
		}
	}
	want(credits)
	others := b.pool.OpenShare(clientaddr.Of(p.Conn().Local().Addr()), nil)
	defer others.Close()
	var kept mem.Ledger
	kept.Open(others)
	kept.Add(ceiling)
	want(mem.LeastCalls)
	kept.Add(-ceiling)
	want(credits)
}

// Calls whose messages are held hold no payload memory: when others release the memory, all calls are
// served, even if the held messages of one client are as large as all memory for large requests.
func TestHeldMessagesDelayNoRequest(t *testing.T) {
	const conns, calls, size, ceiling = 40, 128, 128 << 10, 4 << 20
	b := newBench(t, benchConfig{pool: mem.Config{Ceiling: ceiling, Share: ceiling}, provider: rdmatest.Config{Quiet: true}})
	other := b.pool.OpenShare("other", nil)
	defer other.Close()
	var all []*mem.Buffer
	for {
		m, ok := other.TryGet(size)
		if !ok {
			break
		}
		all = append(all, m)
	}
	for range conns {
		p := b.peerWith(nil, calls)
		chunk := segmentOf(p.Expose(make([]byte, size), rdmacm.RemoteWrite), 0, size)
		for xid := range uint32(calls) {
			if err := p.Send(message{xid: xid, writes: [][]wire.Segment{{chunk}}, payload: rpctest.Message(xid, rpctest.GET, count(size))}.bytes()); err != nil {
				t.Fatal(err)
			}
		}
	}
	await.Until(t, "the charges are as large as all memory but the reserve", func() bool { return b.pool.Stats().Charged > ceiling*3/4 })
	for _, m := range all {
		m.Release()
	}
	await.Until(t, "all calls are served", func() bool { return b.program.Served[rpctest.GET].Load() == conns*calls })
	await.Until(t, "nothing is charged", func() bool { return b.pool.Stats().Charged == 0 })
}
