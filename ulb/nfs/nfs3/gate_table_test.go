package nfs3

import (
	"testing"

	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// Each procedure has a gate: the question that it asks the state manager before it uses a file. Only NULL asks none.
func TestEachProcedureHasAGate(t *testing.T) {
	for p := range procedures {
		if g := procedures[p].gate; g == 0 || (g == gateNone) != (wire.Procedure(p) == wire.ProcNull) {
			t.Errorf("%v has the gate %d", wire.Procedure(p), g)
		}
	}
}
