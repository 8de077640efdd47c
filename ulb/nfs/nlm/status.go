package nlm

import (
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nlm4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// verdicts maps the state's answers to those of the protocol (RFC 1813 §6.1.4). Every other one is
// DENIED_NOLOCKS: the server has no room for the lock, or cannot record it now.
var verdicts = map[state.Status]wire.Stat4{
	nfs4wire.NFS4OK:             wire.Granted,
	nfs4wire.NFS4ErrDenied:      wire.Denied,
	nfs4wire.NFS4ErrShareDenied: wire.Denied,
	nfs4wire.NFS4ErrInvalid:     wire.FBig,
	nfs4wire.NFS4ErrDeadlock:    wire.Deadlock,
	nfs4wire.NFS4ErrOpenMode:    wire.ROFS, // from a claim: the file system is read-only
	nfs4wire.NFS4ErrStale:       wire.StaleFH,
	// The time of grace is not over, or it is and nothing can be reclaimed any more. Linux's server and its client
	// use one status for both.
	nfs4wire.NFS4ErrGrace:      wire.DeniedGracePeriod,
	nfs4wire.NFS4ErrNoGrace:    wire.DeniedGracePeriod,
	nfs4wire.NFS4ErrReclaimBad: wire.DeniedGracePeriod,
}

func verdict(s state.Status) wire.Stat4 {
	if v, ok := verdicts[s]; ok {
		return v
	}
	return wire.DeniedNoLocks
}
