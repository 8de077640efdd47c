package nfs4

import (
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// identify fills in k.Op and k.Cred: the user that an operation acts as on the current
// object.
func (k *Compound) identify(op *Operation) Status {
	e := k.Current.Export
	k.Op.Async = e.Async
	if !op.acts() {
		return wire.NFS4OK
	}
	s := wire.NFS4ErrAccess
	if !k.refused(e) || k.mayUnknown(op) {
		s = k.look(e)
	} else {
		k.Program.exports.RefusedPrincipal(k.Call.Conn, e, &k.Call.Cred)
	}
	if s == wire.NFS4OK {
		e.Identify(&k.Call.Cred, &k.looked, &k.Cred)
	}
	return s
}

// refused says whether an export refuses the caller for want of an account.
func (k *Compound) refused(e *export.Export) bool { return e.Refuses(&k.Call.Cred) }

// mayUnknown says whether a caller without an account may do an operation on the current
// object of an export that wants one: what a client needs to mount, which tells of the root
// and of nothing in it; what gives state back; and what the machine of a client does for its
// users.
func (k *Compound) mayUnknown(op *Operation) bool {
	switch op.Number {
	case wire.OpGetattr, wire.OpSecInfoNoName, wire.OpLookupp:
		return op.Number == wire.OpGetattr && k.maintains || k.Current.Handle == k.Current.Export.FS.Root()
	case wire.OpClose, wire.OpOpenConfirm, wire.OpOpenDowngrade, wire.OpLocku, wire.OpDelegreturn:
		return true
	}
	return k.machineMay(op.Number)
}

// lookSaved is look for the export of the saved object, and has what identify has for the
// current one.
func (k *Compound) lookSaved() Status {
	e := k.Saved.Export
	if k.refused(e) {
		k.Program.exports.RefusedPrincipal(k.Call.Conn, e, &k.Call.Cred)
		return wire.NFS4ErrAccess
	}
	return k.look(e)
}

// look has looked up what an export needs to know of the caller: NFS4_OK, NFS4ERR_DELAY,
// or Waiting.
func (k *Compound) look(e *export.Export) Status {
	if err := k.Program.exports.Look(e, k.Call.Conn, &k.Call.Cred, &k.looked); err != nil {
		return k.Failed(err)
	}
	return wire.NFS4OK
}

// acts says whether an operation on the current object depends on who the caller is.
// GETFH has no error for one that is not known.
func (op *Operation) acts() bool { return op.Number != wire.OpGetFH && op.Number != wire.OpSaveFH }

// counts says whether an operation of minor version 0 uses a number of an owner up, and
// does where it fails: then its client counts on, after NFS4ERR_DELAY too (RFC 7530
// §9.1.7).
func (op *Operation) counts() bool {
	switch op.Number {
	case wire.OpOpen, wire.OpOpenConfirm, wire.OpOpenDowngrade, wire.OpClose, wire.OpLock, wire.OpLocku:
		return true
	}
	return false
}
