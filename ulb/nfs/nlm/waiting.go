package nlm

import (
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// putOff tells package rpc that the host will have to ask again, for the list of calls.
func (r *request) putOff(why rpc.Wait) { r.call.PutOff(why, 0, r.export.ID, r.file.Bytes()) }

// An Untold is a lock that was granted to a host that waited for it, and that has not said yet that it knows: the server
// calls it (GRANTED). Since is when the first call went without an answer, or zero, and Calls how many did.
type Untold struct {
	Host  *state.Client
	Ref   state.Ref
	Since time.Time
	Calls int
}

// Untold lists such locks.
func (p *Program) Untold() (all []Untold) {
	g := &p.granter
	g.mu.Lock()
	defer g.mu.Unlock()
	for host, locks := range g.untold {
		for _, w := range locks {
			if w.taken && !w.doubtful {
				all = append(all, Untold{host, w.ref, w.first, w.calls})
			}
		}
	}
	return all
}
