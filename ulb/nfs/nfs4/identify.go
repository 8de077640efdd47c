package nfs4

import (
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// identify fills in k.Op and k.Cred: as whom an operation acts on the current object.
func (k *Compound) identify(op *Operation) Status {
	e := k.Current.Export
	k.Op.Async, k.postponed = e.Async, wire.NFS4OK
	if !op.acts() {
		return wire.NFS4OK
	}
	switch s := k.look(e); {
	case s == wire.NFS4OK:
	case s == wire.NFS4ErrDelay && k.Minor == 0 && op.counts():
		k.postponed = s
	default:
		return s
	}
	e.Identify(&k.Call.Cred, &k.looked, &k.Cred)
	return wire.NFS4OK
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
