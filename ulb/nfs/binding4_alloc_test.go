//go:build !race

package nfs_test

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// The walk over a compound allocates nothing, whatever its operations are, because it runs
// before the caller's work is limited.
func TestWalkOfACompoundAllocatesNothing(t *testing.T) {
	walk := nfs.Binding4.Procedures[wire.ProcCompound].Walk
	arguments := make([]byte, 1<<10) // zeros decode as empty lists, names and attributes, and as the first arm of each union
	var d xdr.Decoder
	var s rpc.Shape
	for op := range wire.OpNum(128) {
		w := compound4(2, op4{op, nil})
		w.FixedOpaque(arguments)
		if n := testing.AllocsPerRun(100, func() {
			d.Reset(w.Bytes(), headerSize, nil)
			walk(&d, &s)
		}); n > 0 {
			t.Errorf("%v: %v allocations", op, n)
		}
	}
}
