package nfs4wire

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr/xdrtest"
)

// allocates lists the operations whose arguments contain a bounded array of several elements:
// the groups of AUTH_SYS in callback_sec_parms4. Decoding allocates such an array.
var allocates = map[OpNum]bool{OpBackchannelCtl: true, OpCreateSession: true}

// No type allocates when it is encoded or decoded, except for AUTH_SYS in the two operations
// that name flavors of callbacks.
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
