package nlm

import (
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nlm4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// verdicts has the status for each state.Verdict (RFC 1813 §6.1.4). DENIED_NOLOCKS says that the server has no room
// for the lock, or cannot record it now. AfterDisk and WouldWait never reach the host, nor do those about stateids and
// client IDs, which a host does not have.
var verdicts = [state.Verdicts]wire.Stat4{
	state.Granted:   wire.Granted,
	state.Invalid:   wire.FBig,
	state.TryLater:  wire.DeniedNoLocks,
	state.AfterDisk: wire.Failed,
	state.WouldWait: wire.Failed,
	state.Full:      wire.DeniedNoLocks,
	state.FullOfOwn: wire.DeniedNoLocks,
	state.NotFound:  wire.DeniedNoLocks,

	state.OpenConflict: wire.Denied,
	state.LockConflict: wire.Denied,
	state.Deadlock:     wire.Deadlock,
	state.NotOpenFor:   wire.DeniedNoLocks,
	state.ReadOnly:     wire.ROFS,
	state.NoFile:       wire.StaleFH,
	state.Broken:       wire.DeniedNoLocks,
	state.HoldsLocks:   wire.DeniedNoLocks,
	state.HasStateID:   wire.DeniedNoLocks,

	state.UnknownID: wire.DeniedNoLocks,
	state.OldID:     wire.DeniedNoLocks,
	state.FormerID:  wire.DeniedNoLocks,
	state.ExpiredID: wire.DeniedNoLocks,
	state.RevokedID: wire.DeniedNoLocks,

	state.NoClient:       wire.DeniedNoLocks,
	state.Gone:           wire.DeniedNoLocks,
	state.HoldsState:     wire.DeniedNoLocks,
	state.NameTaken:      wire.DeniedNoLocks,
	state.OtherVerifier:  wire.DeniedNoLocks,
	state.OtherPrincipal: wire.DeniedNoLocks,
	// The grace period is not over, or it is and nothing can be reclaimed any more. Linux's server and its client
	// use one status for both.
	state.InGracePeriod:   wire.DeniedGracePeriod,
	state.MayNotReclaim:   wire.DeniedGracePeriod,
	state.NeverHeld:       wire.DeniedGracePeriod,
	state.AlreadyComplete: wire.DeniedNoLocks,
}

func verdict(v state.Verdict) wire.Stat4 { return verdicts[v] }
