package nfs4

import (
	"hash/maphash"
	"slices"

	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// counts reports whether an operation of minor version 0 uses up a seqid of an owner. It does even
// if it fails: after most errors, NFS4ERR_DELAY included, the client goes on to the next seqid (RFC
// 7530 §9.1.7 lists the other errors).
func (op *Operation) counts() bool {
	switch op.Number {
	case wire.OpOpen, wire.OpOpenConfirm, wire.OpOpenDowngrade, wire.OpClose, wire.OpLock, wire.OpLocku:
		return true
	}
	return false
}

// counts reports whether the client continues with the next seqid after status s (RFC 7530 §9.1.7).
func counts(s Status) bool {
	switch s {
	case wire.NFS4ErrStaleClientID, wire.NFS4ErrStaleStateID, wire.NFS4ErrBadStateID, wire.NFS4ErrBadSeqID,
		wire.NFS4ErrBadXDR, wire.NFS4ErrResource, wire.NFS4ErrNoFileHandle, wire.NFS4ErrMoved:
		return false
	}
	return s >= 0
}

var seed = maphash.MakeSeed()

// request returns a key of the running operation, whose arguments end where k.Args stands. A later
// operation of the owner with the same key and seqid is a repetition of this one.
func (k *Compound) request() state.Request {
	args := k.given[:len(k.given)-k.Args.Len()]
	return state.Request{
		Operation: uint32(k.Number), Opens: k.Number == wire.OpOpen, By: k.principal(&k.Current),
		Export: k.Current.Export.ID, File: k.Current.Handle, Arguments: maphash.Bytes(seed, args),
	}
}

// reply returns the reply to store. The parameter to is the request that the reply answers. The
// parameter at is the offset in k.W at which the operation's result begins, after its status.
func (k *Compound) reply(to *state.Request, at int, s Status) *state.Reply {
	r := &state.Reply{To: *to, Status: int32(s)}
	if s == wire.NFS4OK || k.keepBody {
		r.Body = slices.Clone(k.W.Bytes()[at:])
	}
	if s == wire.NFS4OK && k.Number == wire.OpOpen {
		r.Current = k.Current
	}
	return r
}

// again writes the stored reply to a repeated request.
func (k *Compound) again(r *state.Reply) Status {
	k.W.FixedOpaque(r.Body)
	s := Status(r.Status)
	if s != wire.NFS4OK && len(r.Body) > 0 {
		k.KeepBody()
	}
	if o, ok := r.Current.(Object); ok {
		k.SetCurrent(o)
	}
	return s
}

// OwnerOperations returns the operations on owners, which only minor version 0 has.
func OwnerOperations() []Operation {
	return []Operation{
		{Number: wire.OpOpenConfirm, Gate: GateNone, Run: WithArgs(openConfirm), Handle: true, Once: true, Most: wire.StateID4MaxSize},
		{Number: wire.OpReleaseLockOwner, Gate: GateNone, Run: WithArgs(releaseLockOwner), Once: true},
	}
}

// openConfirm is OPEN_CONFIRM (RFC 7530 §16.18).
func openConfirm(k *Compound, args *wire.OpenConfirm4Args) Status {
	return k.onState(&args.OpenStateid, state.KindOpen, args.Seqid, func(r *state.Ref) (state.StateID, state.Verdict) {
		return k.Program.state.ConfirmOpen(r)
	})
}

// releaseLockOwner is RELEASE_LOCKOWNER (RFC 7530 §16.37).
func releaseLockOwner(k *Compound, args *wire.ReleaseLockOwner4Args) Status {
	c, s := k.ClientOf(args.LockOwner.Clientid)
	if s != wire.NFS4OK {
		return s
	}
	return k.Answer(k.Program.state.ReleaseLockOwner(c, args.LockOwner.Owner))
}
