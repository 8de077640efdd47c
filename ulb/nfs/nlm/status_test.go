package nlm

import (
	"testing"

	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nlm4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// Each verdict of the state manager has a status, and only one verdict is success.
func TestEachVerdictHasAStatus(t *testing.T) {
	for v, s := range verdicts {
		if (state.Verdict(v) == state.Granted) != (s == wire.Granted) {
			t.Errorf("verdict %d has the status %v", v, s)
		}
	}
}
