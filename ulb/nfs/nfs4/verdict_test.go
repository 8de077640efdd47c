package nfs4

import (
	"testing"

	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// Each verdict of the state manager has a status in every minor version, and only one verdict is success.
func TestEachVerdictHasAStatus(t *testing.T) {
	for v, s := range verdicts {
		is := state.Verdict(v)
		if granted := is == state.Granted; granted != (s.minor0 == wire.NFS4OK) || granted != (s.later == wire.NFS4OK) {
			t.Errorf("verdict %d has the statuses %v and %v", v, s.minor0, s.later)
		}
		if waits := is == state.AfterDisk || is == state.WouldWait; waits != (s.minor0 < 0) || waits != (s.later < 0) {
			t.Errorf("verdict %d has the statuses %v and %v", v, s.minor0, s.later)
		}
	}
}
