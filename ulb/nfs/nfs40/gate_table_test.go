package nfs40

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
)

// The operations that only this room has use no file, so they ask for nothing.
func TestOperationsUseNoFile(t *testing.T) {
	for _, op := range new(Minor).Operations() {
		if op.Gate != nfs4.GateNone {
			t.Errorf("%v has the gate %d", op.Number, op.Gate)
		}
	}
}
