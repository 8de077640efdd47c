package nfs3

import (
	"testing"

	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// Each status of NFSv3 has a counter of its own. One that does not exist is counted as NFS3ERR_SERVERFAULT.
func TestEachStatusHasACounter(t *testing.T) {
	for at := range places {
		s := statusAt(int(at))
		if place(s) != at {
			t.Errorf("the counter %d is of the status %v, which has the counter %d", at, s, place(s))
		}
	}
	for _, s := range []wire.NFSStat3{72, 10000, 10009, -1} {
		if got := statusAt(int(place(s))); got != wire.NFS3ErrServerFault {
			t.Errorf("status %d counts as %v", s, got)
		}
	}
}
