package nfs4

import (
	"encoding/hex"
	"strconv"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// identify fills in k.Op and k.Cred with the identity with which the operation accesses the
// current object.
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

// refused reports whether an export refuses the caller because the caller has no account.
func (k *Compound) refused(e *export.Export) bool { return e.Refuses(&k.Call.Cred) }

// mayUnknown reports whether a caller without an account may run an operation on the current
// object, although its export requires an account. Allowed are the operations that a mount needs
// (GETATTR, LOOKUPP and SECINFO_NO_NAME), on the export's root only, and the operations that
// confirm or give up state. A caller that acts as the client's machine (see machineMay) may also
// run operations on the state of the client's users, and a GETATTR before them.
func (k *Compound) mayUnknown(op *Operation) bool {
	switch op.Number {
	case wire.OpGetattr, wire.OpSecInfoNoName, wire.OpLookupp:
		return op.Number == wire.OpGetattr && k.maintains || k.Current.Handle == k.Current.Export.FS.Root()
	case wire.OpClose, wire.OpOpenConfirm, wire.OpOpenDowngrade, wire.OpLocku, wire.OpDelegreturn:
		return true
	}
	return k.machineMay(op.Number)
}

// lookSaved checks that the saved object's export does not refuse the caller, and looks up the
// caller's groups if this export needs them.
func (k *Compound) lookSaved() Status {
	e := k.Saved.Export
	if k.refused(e) {
		k.Program.exports.RefusedPrincipal(k.Call.Conn, e, &k.Call.Cred)
		return wire.NFS4ErrAccess
	}
	return k.look(e)
}

// look looks up the caller's groups if the export e needs them (export.Table.Look). It returns
// NFS4_OK, NFS4ERR_DELAY, Blocked or Waiting.
func (k *Compound) look(e *export.Export) Status {
	if err := k.Program.exports.Look(e, k.Call.Conn, &k.Call.Cred, &k.looked); err != nil {
		return k.Failed(err)
	}
	return wire.NFS4OK
}

// acts reports whether an operation on the current object depends on the caller's identity. GETFH
// and SAVEFH do not depend on it, and GETFH has no error status for an unknown caller.
func (op *Operation) acts() bool { return op.Number != wire.OpGetFH && op.Number != wire.OpSaveFH }

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

// principal returns the identity of the caller.
func (k *Compound) principal() state.Principal {
	if c := &k.Call.Cred; c.Principal == "" {
		return state.Principal{UID: c.UID}
	}
	return state.Principal{Proven: k.Call.Cred.Principal}
}

// PrincipalOf returns a caller's identity as a string, for state.Client.Principal. Equal
// strings mean the same caller.
func PrincipalOf(c *rpc.Cred) string {
	switch c.Flavor {
	case rpc.AuthGSS:
		return "gss " + hex.EncodeToString(c.Mechanism) + " " + c.Principal
	case rpc.AuthSys, rpc.AuthTLS:
		return "uid " + strconv.FormatUint(uint64(c.UID), 10)
	}
	return "flavor " + strconv.FormatUint(uint64(c.Flavor), 10)
}

// may returns NFS4_OK if the caller may use the object o now. by is the open or lock of the
// stateid in the arguments, or nil. If name is not nil, o is a directory, and the file in
// question is the one of that name in o, if there is one.
//
// If another open has a deny mode that forbids the use, may returns NFS4ERR_LOCKED or, for the
// removal of a name, NFS4ERR_FILE_OPEN (RFC 8881 §18.25.4, RFC 7530 §16.26.5). During the grace
// period after a restart of the server, no name may change: clients reclaim the state that they
// held before the restart, and may do so by name (RFC 8881 §8.4.2).
func (k *Compound) may(use state.Use, o *Object, name []byte, by *state.State) Status {
	i := state.Intent{
		Use: use, FS: o.Export.FS, File: o.Handle, Name: name, Op: k.opIn(o), By: by,
		Client: k.Client, From: k.Call.Conn.Peer.Addr(),
	}
	switch k.Program.state.Ask(&i) {
	case state.Yes:
		return wire.NFS4OK
	case state.AfterGrace:
		if k.Minor == 0 && use == state.UseLink {
			return wire.NFS4ErrDelay // minor version 0 has no NFS4ERR_GRACE for LINK
		}
		return wire.NFS4ErrGrace
	case state.AfterWait:
		return k.Block(k.FS().Lane())
	case state.Failed:
		return k.Failed(i.Err)
	}
	if use == state.UseRemove {
		return wire.NFS4ErrFileOpen
	}
	return wire.NFS4ErrLocked
}
