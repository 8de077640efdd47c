package nfs4wire

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr/xdrtest"
)

// allocates are the operations in which there is an array with a bound of more than
// one: callback_sec_parms4 has the groups of AUTH_SYS.
var allocates = map[OpNum]bool{OpBackchannelCtl: true, OpCreateSession: true}

// Nothing allocates when it is encoded or decoded, but for AUTH_SYS in the two
// operations that name flavours of callbacks.
func TestNoAllocation(t *testing.T) {
	for _, o := range operations {
		if !allocates[o.op] {
			noAllocation(t, o.args)
		}
		noAllocation(t, o.res)
	}
	for _, o := range callbacks {
		noAllocation(t, o.args)
		noAllocation(t, o.res)
	}
}

func noAllocation(t *testing.T, fresh func() xdrtest.Value) {
	t.Helper()
	if fresh != nil {
		xdrtest.CheckAllocations(t, fresh)
	}
}
