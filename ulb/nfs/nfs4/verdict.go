package nfs4

import (
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// verdicts has the status for each state.Verdict: in minor version 0 (RFC 7530 §13.1), and in later ones
// (RFC 8881 §15.1). AfterDisk and WouldWait never reach the client: see Answer.
var verdicts = [state.Verdicts]struct{ minor0, later Status }{
	state.Granted:   {wire.NFS4OK, wire.NFS4OK},
	state.Invalid:   {wire.NFS4ErrInvalid, wire.NFS4ErrInvalid},
	state.TryLater:  {wire.NFS4ErrDelay, wire.NFS4ErrDelay},
	state.AfterDisk: {Waiting, Waiting},
	state.WouldWait: {Blocked, Blocked},
	// Only minor version 0 has NFS4ERR_RESOURCE.
	state.Full:      {wire.NFS4ErrResource, wire.NFS4ErrDelay},
	state.FullOfOwn: {wire.NFS4ErrResource, wire.NFS4ErrServerFault},
	state.NotFound:  {wire.NFS4ErrNoEnt, wire.NFS4ErrNoEnt},

	state.OpenConflict: {wire.NFS4ErrShareDenied, wire.NFS4ErrShareDenied},
	state.LockConflict: {wire.NFS4ErrDenied, wire.NFS4ErrDenied},
	state.Deadlock:     {wire.NFS4ErrDeadlock, wire.NFS4ErrDeadlock},
	state.NotOpenFor:   {wire.NFS4ErrOpenMode, wire.NFS4ErrOpenMode},
	state.ReadOnly:     {wire.NFS4ErrOpenMode, wire.NFS4ErrOpenMode}, // LOCK has NFS4ERR_ROFS from minor version 1 on alone
	state.NoFile:       {wire.NFS4ErrStale, wire.NFS4ErrStale},
	state.Broken:       {wire.NFS4ErrServerFault, wire.NFS4ErrServerFault},
	state.HoldsLocks:   {wire.NFS4ErrLocksHeld, wire.NFS4ErrLocksHeld},
	state.HasStateID:   {wire.NFS4ErrBadSeqID, wire.NFS4ErrBadStateID},

	state.UnknownID: {wire.NFS4ErrBadStateID, wire.NFS4ErrBadStateID},
	state.OldID:     {wire.NFS4ErrOldStateID, wire.NFS4ErrOldStateID},
	// From minor version 1 on the session, not the stateid, tells the client of a restart.
	state.FormerID:  {wire.NFS4ErrStaleStateID, wire.NFS4ErrBadStateID},
	state.ExpiredID: {wire.NFS4ErrExpired, wire.NFS4ErrBadStateID},
	state.RevokedID: {wire.NFS4ErrAdminRevoked, wire.NFS4ErrAdminRevoked},

	state.NoClient: {wire.NFS4ErrStaleClientID, wire.NFS4ErrStaleClientID},
	// The client's next SEQUENCE finds that the session is gone.
	state.Gone:            {wire.NFS4ErrStaleClientID, wire.NFS4ErrDelay},
	state.HoldsState:      {wire.NFS4ErrClIDInUse, wire.NFS4ErrClientIDBusy},
	state.NameTaken:       {wire.NFS4ErrClIDInUse, wire.NFS4ErrClIDInUse},
	state.OtherVerifier:   {wire.NFS4ErrNotSame, wire.NFS4ErrNotSame},
	state.OtherPrincipal:  {wire.NFS4ErrPerm, wire.NFS4ErrPerm},
	state.InGracePeriod:   {wire.NFS4ErrGrace, wire.NFS4ErrGrace},
	state.MayNotReclaim:   {wire.NFS4ErrNoGrace, wire.NFS4ErrNoGrace},
	state.NeverHeld:       {wire.NFS4ErrReclaimBad, wire.NFS4ErrReclaimBad},
	state.AlreadyComplete: {wire.NFS4ErrCompleteAlready, wire.NFS4ErrCompleteAlready},
}

// Answer returns the status for what the state manager said about the running operation. If the operation has
// to wait, the status is Waiting or Blocked: it waits for what is in k.Later(), or for its file system.
func (k *Compound) Answer(v state.Verdict) Status {
	switch v {
	case state.Granted:
		return wire.NFS4OK
	case state.AfterDisk:
		return k.afterDisk()
	case state.WouldWait:
		return k.Block(k.FS().Lane())
	}
	if k.Minor == 0 {
		return verdicts[v].minor0
	}
	return verdicts[v].later
}

// Later returns the place in which the state manager says what the running operation has to wait for: see Answer.
func (k *Compound) Later() *state.Later { return &k.later }
