package nlm

import (
	"slices"
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

// Untold returns an Untold for each lock that a host has not confirmed, except for locks that have ended.
func (p *Program) Untold() (all []Untold) {
	g := &p.granter
	var ranges []state.HostRange
	g.mu.Lock()
	for host, locks := range g.untold {
		for _, w := range locks {
			if w.taken && !w.doubtful {
				all, ranges = append(all, Untold{host, w.ref, w.first, w.calls}), append(ranges, w.what())
			}
		}
	}
	g.mu.Unlock()
	i := -1
	return slices.DeleteFunc(all, func(Untold) bool {
		i++
		return !p.state.HostHolds(&ranges[i])
	})
}
