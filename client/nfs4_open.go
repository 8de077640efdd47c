package client

import (
	"context"
	"slices"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// An Open4 holds the arguments of Open.
type Open4 struct {
	// Name is the file's name in the directory Dir. If Name is empty, Dir is the file itself
	// (CLAIM_FH).
	Dir  Handle
	Name string
	// Owner is the name of the open-owner. It identifies the owner among those of this client.
	Owner []byte
	// Access and Deny are values such as nfs4wire.Open4ShareAccessRead. Access may also contain a
	// wish about a delegation, such as nfs4wire.Open4ShareAccessWantNoDeleg. If it contains none
	// and the session has no Callbacks.Recall, Open asks the server not to grant a delegation: the
	// server could not recall the delegation, and another client's conflicting request would wait
	// until the lease has passed.
	Access, Deny uint32
	// If Create is not nil, the server makes the file if it does not exist. Create.Mode says what
	// happens if the file exists: with nfs4wire.Guarded4, for example, the OPEN fails.
	Create *nfs4wire.Createhow4
}

// An Opened4 is the outcome of an OPEN.
type Opened4 struct {
	File    Handle
	StateID nfs4wire.StateID4
	// Flags are values such as nfs4wire.Open4ResultLocktypePosix.
	Flags uint32
	// Directory has the directory's change attribute before and after the OPEN.
	Directory nfs4wire.ChangeInfo4
	// Delegation is the kind of the granted delegation, and DelegationID its stateid.
	Delegation   nfs4wire.OpenDelegationType4
	DelegationID nfs4wire.StateID4
}

// Open opens a regular file (RFC 8881 §18.16).
func (n NFS4) Open(ctx context.Context, o Open4) (opened Opened4, err error) {
	args := nfs4wire.Open4Args{
		ShareAccess: n.access(o.Access), ShareDeny: o.Deny,
		Owner: nfs4wire.StateOwner4{Clientid: n.Session.ClientID(), Owner: o.Owner},
		Claim: nfs4wire.OpenClaim4{Claim: nfs4wire.ClaimNull, File: nfs4wire.UTF8String(o.Name)},
	}
	if o.Name == "" {
		args.Claim = nfs4wire.OpenClaim4{Claim: nfs4wire.ClaimFH}
	}
	if o.Create != nil {
		args.Openhow = nfs4wire.Openflag4{Opentype: nfs4wire.Open4Create, How: *o.Create}
	}
	var res nfs4wire.Open4Res
	var fh nfs4wire.GetFH4Res
	c := Compound{Cache: true, MaxArgs: nameArgs(o.Name) + len(o.Owner), Ops: []Op{
		put(o.Dir), {nfs4wire.OpOpen, &args, &res}, {Number: nfs4wire.OpGetFH, Res: &fh},
	}}
	err = n.do(ctx, &c, func() error {
		ok := &res.ResOK
		opened = Opened4{
			File: slices.Clone(Handle(fh.ResOK.Object)), StateID: ok.Stateid, Flags: ok.Rflags, Directory: ok.Cinfo,
			Delegation: ok.Delegation.DelegationType,
		}
		switch ok.Delegation.DelegationType {
		case nfs4wire.OpenDelegateRead, nfs4wire.OpenDelegateReadAttrsDeleg:
			opened.DelegationID = ok.Delegation.Read.Stateid
		case nfs4wire.OpenDelegateWrite, nfs4wire.OpenDelegateWriteAttrsDeleg:
			opened.DelegationID = ok.Delegation.Write.Stateid
		}
		return nil
	})
	return opened, err
}

// access returns the value of Open4.Access for the request. If the value contains no wish about a
// delegation and the Session has no Callbacks.Recall, access adds the wish for no delegation.
func (n NFS4) access(access uint32) uint32 {
	if access&nfs4wire.Open4ShareAccessWantDelegMask == 0 && n.Session.cfg.Callbacks.Recall == nil {
		access |= nfs4wire.Open4ShareAccessWantNoDeleg
	}
	return access
}

// CloseFile closes a file (RFC 8881 §18.2). The argument open is the stateid of the open.
func (n NFS4) CloseFile(ctx context.Context, file Handle, open nfs4wire.StateID4) error {
	var res nfs4wire.Close4Res
	return n.change(ctx, file, Op{nfs4wire.OpClose, &nfs4wire.Close4Args{OpenStateid: open}, &res})
}

// ReturnDelegation returns a delegation to the server (RFC 8881 §18.6).
func (n NFS4) ReturnDelegation(ctx context.Context, file Handle, delegation nfs4wire.StateID4) error {
	return n.change(ctx, file, Op{Number: nfs4wire.OpDelegreturn, Args: &nfs4wire.DelegReturn4Args{Stateid: delegation}})
}

// A Range4 is a range of bytes of a file. Length nfs4wire.NFS4Maxfilelen means to the end of the
// file.
type Range4 struct{ Offset, Length uint64 }

// A DeniedError means that the server denied a lock because of another lock. The fields describe
// that lock. A DeniedError is an *OpError, too.
type DeniedError struct {
	OpError
	Holder   Range4
	Type     nfs4wire.NFSLockType4
	ClientID uint64
	Owner    []byte
}

// Unwrap returns the OpError, so that errors.As and StatusOf find it.
func (e *DeniedError) Unwrap() error { return &e.OpError }

// Lock takes a lock for a lock-owner that has no locks on the file yet (RFC 8881 §18.10). The
// argument open is the stateid of one of the client's opens of the file. If another lock
// conflicts, the error is a *DeniedError.
func (n NFS4) Lock(ctx context.Context, file Handle, open nfs4wire.StateID4, owner []byte, kind nfs4wire.NFSLockType4, r Range4) (nfs4wire.StateID4, error) {
	return n.lock(ctx, file, kind, r, nfs4wire.Locker4{NewLockOwner: true, OpenOwner: nfs4wire.OpenToLockOwner4{
		OpenStateid: open, LockOwner: nfs4wire.StateOwner4{Clientid: n.Session.ClientID(), Owner: owner},
	}})
}

// LockMore takes a further lock for a lock-owner that has locks on the file. The argument locks
// is the stateid of these locks.
func (n NFS4) LockMore(ctx context.Context, file Handle, locks nfs4wire.StateID4, kind nfs4wire.NFSLockType4, r Range4) (nfs4wire.StateID4, error) {
	return n.lock(ctx, file, kind, r, nfs4wire.Locker4{LockOwner: nfs4wire.ExistLockOwner4{Stateid: locks}})
}

func (n NFS4) lock(ctx context.Context, file Handle, kind nfs4wire.NFSLockType4, r Range4, who nfs4wire.Locker4) (nfs4wire.StateID4, error) {
	args := nfs4wire.Lock4Args{Locktype: kind, Offset: r.Offset, Length: r.Length, Locker: who}
	res := lockResult{}
	err := n.change(ctx, file, Op{nfs4wire.OpLock, &args, &res})
	if StatusOf(err) == nfs4wire.NFS4ErrDenied {
		d := &res.Denied
		err = &DeniedError{
			OpError{nfs4wire.OpLock, nfs4wire.NFS4ErrDenied}, Range4{d.Offset, d.Length}, d.Locktype, d.Owner.Clientid, res.owner,
		}
	}
	return res.ResOK.LockStateid, err
}

// lockResult is the result of LOCK. Decode copies the owner of the conflicting lock, because the
// memory of the reply is valid only until the end of Compound.Done.
type lockResult struct {
	nfs4wire.Lock4Res
	owner []byte
}

// Decode implements Decoder.
func (r *lockResult) Decode(d *xdr.Decoder) {
	r.Lock4Res.Decode(d)
	r.owner = slices.Clone(r.Denied.Owner.Owner)
}

// Unlock releases an owner's locks in a range (RFC 8881 §18.12), and returns the stateid of
// the remaining locks.
func (n NFS4) Unlock(ctx context.Context, file Handle, locks nfs4wire.StateID4, kind nfs4wire.NFSLockType4, r Range4) (nfs4wire.StateID4, error) {
	args := nfs4wire.Locku4Args{Locktype: kind, LockStateid: locks, Offset: r.Offset, Length: r.Length}
	var res nfs4wire.Locku4Res
	err := n.change(ctx, file, Op{nfs4wire.OpLocku, &args, &res})
	return res.Stateid, err
}
