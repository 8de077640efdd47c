package nfs4

import (
	"errors"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// perform checks that op may run (room in the reply, file handles, export, caller) and runs it. If op
// makes another object the current one, perform checks the flavor for that object.
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
	numbers := k.minor.sequencer
	if numbers != nil {
		k.given = k.Args.Rest()
	}
	if op.Handle {
		if s := k.ready(op); s != wire.NFS4OK {
			if numbers == nil || !numbers.Counts(op.Number, s) {
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
	k.tellWhat(op)
	if f := first[op.Gate]; f.asks {
		if s := k.may(f.use, &k.Current, nil, nil); s != wire.NFS4OK {
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

// enter marks the export of o as in use (export.Export.Enter). If the export was replaced after the
// compound had set the file handle, o gets the new export. If the export is a mount whose file system was
// closed while idle, enter opens it. i is 0 for the current object, and 1 for the saved one.
func (k *Compound) enter(i int, o *Object) Status {
	for !o.Export.Enter(k.Call.Conn) {
		e, err := k.Program.exports.AwakeFor(o.Export, k.Op.Try)
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

// admit checks that an operation may use the current object. If the object's export does not accept the
// caller's flavor, secure has already refused the object, unless the operation checks the flavor itself.
// For such an operation admit sets k.unsuited, and the operation must not access the file system.
func (k *Compound) admit(n wire.OpNum) Status {
	if k.unsuited = !k.admits(&k.Current); !k.unsuited {
		return wire.NFS4OK
	}
	switch n {
	case wire.OpSaveFH, wire.OpLookup, wire.OpLookupp, wire.OpSecInfo, wire.OpSecInfoNoName, wire.OpOpen:
		return wire.NFS4OK
	}
	if k.maintains && (n == wire.OpGetattr || k.machineMay(n)) {
		return wire.NFS4OK
	}
	return k.cannotSay(n, wire.NFS4ErrStale)
}

// admits reports whether the export of an object accepts the caller's flavor.
func (k *Compound) admits(o *Object) bool { return o.Export.Admits(k.Call.Conn, &k.Call.Cred) }

// cannotSay returns the status for a refused flavor in an operation that cannot return NFS4ERR_WRONGSEC:
// NFS4ERR_DELAY if the export was replaced after the compound had set the file handle, because the
// operation that sets the handle then returns NFS4ERR_WRONGSEC to the repeated compound; otherwise, and
// for GETFH, which cannot return NFS4ERR_DELAY, the argument other.
func (k *Compound) cannotSay(n wire.OpNum, other Status) Status {
	if k.replaced && n != wire.OpGetFH {
		return wire.NFS4ErrDelay
	}
	return other
}

// identify fills in k.Op and k.Cred with the identity with which the operation accesses the current object.
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
		k.anonymous, k.identified = e.Identify(&k.Call.Cred, &k.looked, &k.Cred), true
	}
	return s
}

// refused reports whether an export requires an account that the caller does not have.
func (k *Compound) refused(e *export.Export) bool { return e.Refuses(&k.Call.Cred) }

// mayUnknown reports whether a caller without an account may run an operation on the current object,
// although its export requires an account. Allowed are, on the export's root, the operations that a mount
// needs, and the operations that confirm or give up state. A caller that acts as the client's machine (see
// machineMay) may also run operations on the state of the client's users, and a GETATTR before them.
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

// leave ends the operation's accesses, and undoes enter: the exports are no longer in use by the operation. perform
// defers the call of leave. If the operation panicked, leave also ends the compound with NFS4ERR_SERVERFAULT.
func (k *Compound) leave() {
	k.passes.Done()
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

// NFS4ERR_WRONGSEC tells a client that an export does not accept the flavor of its call
// (RFC 8881 §2.6.3.1.1). RFC 7530 §3.3.2 has less exact rules, and minor version 0 follows
// those of RFC 8881. Few operations may return NFS4ERR_WRONGSEC:
//
//   - An operation that sets the current file handle (see puts) may return it about the new object.
//     If the next operation does not use the object, or may return NFS4ERR_WRONGSEC itself, the
//     setting succeeds.
//   - LOOKUP, LOOKUPP and OPEN by name may return it about the object that they lead to.
//
// RENAME and LINK might return it about the saved file handle (§2.6.3.1.2), but this server
// never does so. Between two exports they return NFS4ERR_XDEV under any flavor. Within one
// export both directories have the same policy.

// puts reports whether an operation sets the current file handle from its arguments, from the
// root or from the saved handle.
func puts(n wire.OpNum) bool {
	switch n {
	case wire.OpPutFH, wire.OpPutPubFH, wire.OpPutRootFH, wire.OpRestoreFH:
		return true
	}
	return false
}

// secure checks the flavor for the object that the operation has made the current one. The
// operation that follows decides whether this one may fail with NFS4ERR_WRONGSEC.
func (k *Compound) secure() Status {
	admits := k.admits(&k.Current)
	k.maintains = (!admits || k.refused(k.Current.Export)) && k.willMaintain()
	if admits || k.maintains {
		return wire.NFS4OK
	}
	rest := *k.Args
	for i := k.Index + 1; i < k.Count; i++ {
		switch next := wire.OpNum(rest.Uint32()); {
		case next == wire.OpSaveFH: // the operation after SAVEFH decides
		case rest.Err() != nil || judgesItself(next, &rest):
			return wire.NFS4OK
		default:
			return k.wrongSec(&k.Current)
		}
	}
	return wire.NFS4OK
}

// judgesItself reports whether operation n does not use the current object, or may return
// NFS4ERR_WRONGSEC itself. args are the arguments of n.
func judgesItself(n wire.OpNum, args *xdr.Decoder) bool {
	switch n {
	case wire.OpLookup, wire.OpLookupp, wire.OpSecInfo, wire.OpSecInfoNoName:
		return true
	case wire.OpOpen:
		var open wire.Open4Args
		open.Decode(args)
		return args.Err() != nil || byName(open.Claim.Claim)
	}
	return puts(n)
}

// byName reports whether an OPEN with this claim names a file in the current directory,
// instead of opening the current object.
func byName(claim wire.OpenClaimType4) bool {
	switch claim {
	case wire.ClaimNull, wire.ClaimDelegateCur, wire.ClaimDelegatePrev:
		return true
	}
	return false
}

// wrongSec returns NFS4ERR_WRONGSEC, and reports the refusal to the table of exports
// (export.Table.OnRefusedFlavor).
func (k *Compound) wrongSec(o *Object) Status {
	k.Program.exports.OnRefusedFlavor(k.Call.Conn, o.Export, export.SecurityOf(&k.Call.Cred))
	return wire.NFS4ErrWrongSec
}

// machineMay returns what the session's MachineMay returns, and false if the session is no Maintainer.
func (k *Compound) machineMay(n wire.OpNum) bool {
	m, ok := k.Session.(Maintainer)
	return ok && m.MachineMay(&k.Call.Cred, n)
}

// willMaintain reports whether the next operation, after any GETATTRs, is one that the client's machine
// may do for its users. It comes under the flavor with which the client maintains its state, which the
// export need not accept: a client whose users use krb5p may close their files under krb5i.
func (k *Compound) willMaintain() bool {
	rest := *k.Args
	for i := k.Index + 1; i < k.Count; i++ {
		n := wire.OpNum(rest.Uint32())
		if n != wire.OpGetattr {
			return rest.Err() == nil && k.machineMay(n)
		}
		rest.Skip(4 * rest.Count(maxBitmap, 4))
	}
	return false
}

// maxBitmap is the longest attribute bitmap that willMaintain skips, in words.
const maxBitmap = 16

// principal returns who acts in the export of o: see state.Principal.
func (k *Compound) principal(o *Object) state.Principal {
	if k.identified && o.Export == k.Current.Export {
		return state.Principal{Proven: k.Call.Cred.Principal, UID: k.Cred.UID, Anonymous: k.anonymous}
	}
	var as vfs.Cred
	anonymous := o.Export.Identify(&k.Call.Cred, &k.looked, &as)
	return state.Principal{Proven: k.Call.Cred.Principal, UID: as.UID, Anonymous: anonymous}
}

// FS returns the file system of the current file handle.
func (k *Compound) FS() vfs.FileSystem {
	return k.Program.names.FileSystem(k.Current.Export, k.Call.Conn, &k.Call.Cred)
}

// SetCurrent makes o the current object. It forgets the current stateid, which belonged to the
// previous object (RFC 8881 §16.2.3.1.2).
func (k *Compound) SetCurrent(o Object) { k.Current, k.StateID = o, state.Anonymous }

// brought records that the operation left the attributes of the current object in k.Attr, but only under
// Op.Try: after a wait they may be older than those that other callers have already seen.
func (k *Compound) brought() {
	if k.Op.Try {
		k.broughtBy = k.Index + 1
	}
}

// Brought reports whether the previous operation left the attributes of the current object in k.Attr.
func (k *Compound) Brought() bool { return k.broughtBy > 0 && k.broughtBy == k.Index }

// Failed returns the status, perhaps Blocked or Waiting, of an operation that failed with
// err. err is not nil.
func (k *Compound) Failed(err error) Status {
	if blocked(err) {
		return k.Block(k.FS().Lane())
	}
	if pending, ok := errors.AsType[export.Pending](err); ok {
		lane := k.FS().Lane()
		k.Call.WaitsFor(rpc.WaitUser)
		return k.WaitFor(func() { pending.Await(func() { k.Resume(lane) }) })
	}
	return StatusOf(err)
}

// Block returns the status Blocked, for an operation that would have had to wait although Op.Try is set.
// lane is the executor lane in which it will wait: a queue of calls for one file system or other resource
// that may stall.
func (k *Compound) Block(lane any) Status {
	k.lane = lane
	return Blocked
}

// afterDisk returns the status Waiting for an operation that waits for what is in k.later. The operation runs
// again in the lane of its file system.
func (k *Compound) afterDisk() Status {
	lane, later := k.on, k.later
	if e := k.Current.Export; e != nil {
		lane = e.FS.Lane()
	}
	k.Call.WaitsFor(rpc.WaitState)
	return k.WaitFor(func() { later.Await(func() { k.Resume(lane) }) })
}

// blocked reports whether err means that a call with Try would have had to wait.
func blocked(err error) bool { return err != nil && errors.Is(err, vfs.ErrWouldBlock) }
