package client

import (
	"time"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// A step is a part of the recovery of a session whose server has forgotten it.
type step uint8

const (
	stepIdentify step = iota // EXCHANGE_ID
	stepCreate               // CREATE_SESSION
	stepComplete             // RECLAIM_COMPLETE, if it is due
	stepDone
)

// A verdict is what follows a step.
type verdict uint8

const (
	onward       verdict = iota // the next step
	again                       // the same step, unchanged
	number                      // CREATE_SESSION with the next sequence number
	fromCreate                  // back to CREATE_SESSION
	fromIdentify                // back to EXCHANGE_ID
	final                       // no recovery
)

// hopeless are the statuses that stay the same however often a step is repeated, because they refuse
// the request itself.
var hopeless = map[nfs4wire.NFSStat4]bool{
	nfs4wire.NFS4ErrBadXDR: true, nfs4wire.NFS4ErrInvalid: true, nfs4wire.NFS4ErrNotSupp: true, nfs4wire.NFS4ErrOpIllegal: true,
	nfs4wire.NFS4ErrTooSmall: true, nfs4wire.NFS4ErrEncrAlgUnsupp: true, nfs4wire.NFS4ErrHashAlgUnsupp: true,
}

// verdicts has the verdict on each status of a step that is neither NFS4_OK nor in hopeless. Other
// holds for the statuses that have no row.
//
// A CREATE_SESSION that fails after the server has looked at its sequence number has used up the
// number (RFC 8881 §18.36.4): a copy gets the same error.
var verdicts = [stepDone]struct {
	rows  map[nfs4wire.NFSStat4]verdict
	other verdict
}{
	stepIdentify: {other: again},
	stepCreate: {map[nfs4wire.NFSStat4]verdict{
		nfs4wire.NFS4ErrDelay:         again,
		nfs4wire.NFS4ErrStaleClientID: fromIdentify,
		nfs4wire.NFS4ErrSeqMisordered: fromIdentify,
		nfs4wire.NFS4ErrClIDInUse:     fromIdentify,
	}, number},
	stepComplete: {map[nfs4wire.NFSStat4]verdict{
		nfs4wire.NFS4ErrDelay:         again,
		nfs4wire.NFS4ErrStaleClientID: fromIdentify,
	}, fromCreate},
}

// after returns the verdict on a step that the server has answered with status.
func (at step) after(status nfs4wire.NFSStat4) verdict {
	if status == nfs4wire.NFS4OK {
		return onward
	}
	if hopeless[status] {
		return final
	}
	if v, ok := verdicts[at].rows[status]; ok {
		return v
	}
	return verdicts[at].other
}

// A pace spaces attempts to recover. The wait is 0 only if a request has succeeded since the last
// attempt; otherwise it grows, so that a server that refuses each request is not flooded.
type pace struct {
	seen int64
	wait time.Duration
	// An attempt follows the last one after least, even if a request has succeeded meanwhile.
	least time.Duration
	last  time.Time
}

// next returns the wait before the next attempt. succeeded changes with each request that succeeds.
func (p *pace) next(succeeded int64) time.Duration {
	now := time.Now()
	wait := time.Duration(0)
	if succeeded != p.seen {
		if p.wait = 0; p.least > 0 {
			p.wait = max(0, p.least-now.Sub(p.last))
		}
		wait = p.wait
	} else {
		p.wait = min(max(redialFirst, 2*p.wait), redialMost)
		wait = p.wait
	}
	p.seen, p.last = succeeded, now.Add(wait)
	return wait
}
