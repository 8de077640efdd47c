package iwarp

import (
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
)

// counters counts events since the Provider was made.
type counters struct {
	setupFailed   atomic.Uint64 // connections that failed during set-up
	rejected      atomic.Uint64 // requests for a connection that either side refused
	terminatesOut atomic.Uint64
	terminatesIn  atomic.Uint64
	emptyEnds     atomic.Uint64 // connections ended by ErrEmpty
	misguessed    atomic.Uint64 // socket reads ahead whose guess was wrong (lookAhead)
}

// Stats returns the counts of faults, in the form that all providers share.
func (p *Provider) Stats() rdmacm.Stats {
	c := &p.counters
	return rdmacm.Stats{Faults: []rdmacm.Count{
		{What: "setup", N: c.setupFailed.Load() + c.rejected.Load()},
		{What: "terminate_sent", N: c.terminatesOut.Load()},
		{What: "terminate_received", N: c.terminatesIn.Load()},
		{What: "empty", N: c.emptyEnds.Load()},
	}}
}
