package nfs3wire

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr/xdrtest"
)

// No type of NFSv3 allocates when it is encoded or decoded.
func TestNoAllocation(t *testing.T) {
	for _, p := range procedures {
		xdrtest.CheckAllocations(t, p.args)
		xdrtest.CheckAllocations(t, p.res)
	}
}
