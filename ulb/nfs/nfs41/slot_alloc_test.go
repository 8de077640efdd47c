//go:build !race

package nfs41

// Under the race detector, a sync.Pool drops items at random, so allocations cannot be counted.

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// After the first requests, a SEQUENCE allocates no memory.
func TestSequenceAllocatesNothing(t *testing.T) {
	site, _ := site(t, Config{}, state.Config{})
	p := site.Peer(1)
	s := newClientSession(p, "client")
	for _, cache := range []bool{false, true} {
		const runs = 200
		var messages [][]byte
		for range runs + 2 {
			seq := s.sequenceOp(1)
			seq.Cachethis = cache
			s.seq[1]++
			messages = append(messages, p.Message("", op(wire.OpSequence, seq), rootOp))
		}
		c := rpctest.NewCall(p.Conn, messages[0])
		c.Run(site.RPC)
		i := 1
		n := testing.AllocsPerRun(runs, func() {
			c.Again(p.Conn, messages[i])
			i++
			c.Run(site.RPC)
		})
		if d, err := c.Results(); err != nil || wire.NFSStat4(d.Int32()) != wire.NFS4OK {
			t.Fatal(err)
		}
		if n != 0 {
			t.Errorf("kept %v: %v allocations", cache, n)
		}
	}
}
