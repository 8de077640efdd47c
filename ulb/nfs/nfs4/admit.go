package nfs4

import (
	"encoding/hex"
	"strconv"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// perform checks that op may run (room in the reply, file handles, export, caller) and runs it.
// After an operation that makes another object the current object, perform checks the security
// flavor for the new object.
func (k *Compound) perform(op *Operation) (s Status) {
	if op.Once {
		if s := k.room(op.Most); s != wire.NFS4OK {
			return s
		}
	}
	switch {
	case op.Handle && !k.Current.IsSet():
		return wire.NFS4ErrNoFileHandle
	case op.Saved && !k.Saved.IsSet():
		return wire.NFS4ErrNoFileHandle
	case op.Changes && k.Current.IsSet() && k.Current.Export.ReadOnly:
		return wire.NFS4ErrROFS
	}
	defer k.leave()
	if k.Minor == 0 {
		k.given = k.Args.Rest()
	}
	if op.Handle {
		if s := k.ready(op); s != wire.NFS4OK {
			if k.Minor != 0 || !op.counts() || !counts(s) {
				return s
			}
			k.postponed = s
		}
	}
	if op.Saved {
		if s := k.readySaved(op.Number); s != wire.NFS4OK {
			return s
		}
	}
	k.inside = true
	s = op.Run(k)
	k.inside = false
	if s == wire.NFS4OK && !k.Decoded() {
		return wire.NFS4ErrBadXDR
	}
	if s == wire.NFS4OK {
		switch n := op.Number; {
		case puts(n):
			if s := k.secure(); s != wire.NFS4OK || n != wire.OpPutFH {
				return s
			}
			return k.present()
		case (n == wire.OpLookup || n == wire.OpLookupp) && !k.admits(&k.Current):
			return k.wrongSec(&k.Current)
		}
	}
	return s
}

// ready prepares an operation on the current object: it marks the export as in use, checks the
// flavor and identifies the caller.
func (k *Compound) ready(op *Operation) Status {
	if s := k.enter(0, &k.Current); s != wire.NFS4OK {
		return s
	}
	if s := k.admit(op.Number); s != wire.NFS4OK {
		return s
	}
	return k.identify(op)
}

// readySaved prepares an operation on the saved object. RENAME and LINK need no check of the flavor,
// because they do not access a saved object of another export: they return NFS4ERR_XDEV.
func (k *Compound) readySaved(n wire.OpNum) Status {
	if s := k.enter(1, &k.Saved); s != wire.NFS4OK {
		return s
	}
	e := k.Saved.Export
	switch {
	case n != wire.OpRename && n != wire.OpLink && !k.admits(&k.Saved):
		return k.cannotSay(n, wire.NFS4ErrAccess)
	case k.refused(e):
		k.Program.exports.OnRefusedPrincipal(k.Call.Conn, e, k.Call.Cred.Principal)
		return wire.NFS4ErrAccess
	}
	return k.look(e)
}

// enter marks the export of o as in use (export.Export.Enter). If the export was replaced after the
// compound had set the file handle, enter marks the new export instead. If the export is a mount
// whose file system was closed while idle, enter opens it. i is 0 for the current object, and 1 for
// the saved one.
func (k *Compound) enter(i int, o *Object) Status {
	for !o.Export.Enter(k.Call.Conn) {
		e, err := k.Program.exports.Awake(o.Export, k.Op.Try)
		switch {
		case blocked(err):
			return k.Block(o.Export.FS.Lane())
		case err != nil:
			return StatusOf(err)
		case !e.Serves(k.Call.Conn, &k.Call.Cred):
			return wire.NFS4ErrStale
		}
		o.Export, k.replaced = e, true
	}
	k.entered[i] = o.Export
	if lane := o.Export.FS.Lane(); i == 0 && !k.Op.Try && k.on != lane {
		// The compound continues in the executor's lane for this export's file system. If the
		// operation stalls there, calls in other lanes do not wait for it.
		return k.WaitFor(func() { k.Resume(lane) })
	}
	return wire.NFS4OK
}

// leave undoes enter: the exports are no longer in use by the operation. perform defers the call of
// leave. If the operation panicked, leave also ends the compound with NFS4ERR_SERVERFAULT.
func (k *Compound) leave() {
	if k.inside {
		k.inside = false
		k.Status = wire.NFS4ErrServerFault
		k.W.Fail() // the partial result is not a reply
		k.minor.After(k)
	}
	for i, e := range k.entered {
		if e != nil {
			e.Leave(k.Call.Conn)
			k.entered[i] = nil
		}
	}
}

// identify fills in k.Op and k.Cred with the identity with which the operation accesses the
// current object.
func (k *Compound) identify(op *Operation) Status {
	e := k.Current.Export
	k.Op.Async = e.Async
	if op.Number == wire.OpGetFH || op.Number == wire.OpSaveFH {
		return wire.NFS4OK // they do not depend on the caller, and GETFH has no error status for an unknown one
	}
	if k.refused(e) && !k.mayUnknown(op) {
		k.Program.exports.OnRefusedPrincipal(k.Call.Conn, e, k.Call.Cred.Principal)
		return wire.NFS4ErrAccess
	}
	s := k.look(e)
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

// look looks up the caller's groups if the export e needs them (export.Table.Look). It returns
// NFS4_OK, NFS4ERR_DELAY, Blocked or Waiting.
func (k *Compound) look(e *export.Export) Status {
	if err := k.Program.exports.Look(e, k.Call.Conn, &k.Call.Cred, &k.looked); err != nil {
		return k.Failed(err)
	}
	return wire.NFS4OK
}

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
