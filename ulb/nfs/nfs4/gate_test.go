package nfs4

import (
	"testing"

	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// Legal reports whether a minor version defines an operation.
func Legal(n wire.OpNum, minor uint32) bool { return legal(n, minor) }

// Asking returns the operations that ask before they use a file.
func Asking() (all []wire.OpNum) {
	for _, op := range shared {
		if op.Gate < GateNone {
			all = append(all, op.Number)
		}
	}
	return all
}

// Each operation that minor versions share says what it asks before it uses a file. What changes the file system asks
// itself.
func TestEachOperationHasAGate(t *testing.T) {
	for _, op := range shared {
		if op.Gate == 0 || op.Gate > GateNone || op.Changes && op.Gate != GateOwn {
			t.Errorf("%v has the gate %d", op.Number, op.Gate)
		}
	}
}
