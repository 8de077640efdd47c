package rdma

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/rdmatest"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/test/await"
)

// The calls of one client address that wait for the executor occupy at most half of the account for
// charges, which is a quarter of the ceiling. Further calls are held as messages. When the first ones have ended, all are answered.
func TestCallsThatWaitAreBoundedByClient(t *testing.T) {
	const conns, calls, ceiling = 40, 60, 32 << 20
	b := newBench(t, benchConfig{
		pool: mem.Config{Ceiling: ceiling, Share: ceiling}, server: Config{Credits: calls}, provider: rdmatest.Config{Quiet: true},
	})
	var peers []*rdmatest.Peer
	for range conns {
		p := b.peer()
		for xid := range uint32(calls) {
			if err := p.Send(message{xid: xid, payload: rpctest.Message(xid, rpctest.STALL, count(1))}.bytes()); err != nil {
				t.Fatal(err)
			}
		}
		peers = append(peers, p)
	}
	waiting := func() (begun, held int64) {
		for _, k := range b.server.connections() {
			begun += k.calls.Load()
			held += int64(k.responder.held.count.Load())
		}
		return begun, held
	}
	await.Until(t, "all calls are here", func() bool {
		begun, held := waiting()
		return begun+held == conns*calls
	})
	begun, held := waiting()
	// slack covers the memory that a connection has not charged yet, and the calls that each
	// connection may always have under way.
	const slack = conns * (32 << 10)
	if most := int64((ceiling/8 + slack) / (callCost * 3 / 2)); begun > most || held == 0 {
		t.Errorf("%d calls have begun and %d are held, want %d begun at most", begun, held, most)
	}
	b.program.Release(1)
	for i, p := range peers {
		for range calls {
			if m := p.Receive(); len(m.Bytes) == 0 {
				t.Fatalf("peer %d: no answer", i)
			}
		}
	}
}
