package nfs4

import (
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// NFS4ERR_WRONGSEC tells a client that an export does not take the flavor of its call (RFC
// 8881 §2.6.3.1.1; RFC 7530 §3.3.2 has no rules so exact, and gets the same). Few operations
// have it: those that put a file handle, for the object that they put, unless the operation
// behind them is one that does not touch it or has the error itself; LOOKUP, LOOKUPP and
// OPEN by name, for the object that they lead to. RENAME and LINK may have it for the saved
// file handle (§2.6.3.1.2), and have not: between two exports they are NFS4ERR_XDEV under
// any flavor, and two directories of one export have one policy.

// puts says whether an operation is a put filehandle operation.
func puts(n wire.OpNum) bool {
	switch n {
	case wire.OpPutFH, wire.OpPutPubFH, wire.OpPutRootFH, wire.OpRestoreFH:
		return true
	}
	return false
}

// secure judges the object that the current operation has put, by the operation that
// follows.
func (k *Compound) secure() Status {
	admits := k.admits(&k.Current)
	k.maintains = (!admits || k.refused(k.Current.Export)) && k.willMaintain()
	if admits || k.maintains {
		return wire.NFS4OK
	}
	rest := *k.Args
	for i := k.Index + 1; i < k.Count; i++ {
		switch next := wire.OpNum(rest.Uint32()); {
		case next == wire.OpSaveFH: // the one behind it decides
		case rest.Err() != nil || judgesItself(next, &rest):
			return wire.NFS4OK
		default:
			return k.wrongSec(&k.Current)
		}
	}
	return wire.NFS4OK
}

// judgesItself says whether the operation n, of which args are the arguments, has no use
// for the object that was put, or has the error itself.
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

// byName says whether an OPEN with a claim names a file in the current directory, and not
// the current object.
func byName(claim wire.OpenClaimType4) bool {
	switch claim {
	case wire.ClaimNull, wire.ClaimDelegateCur, wire.ClaimDelegatePrev:
		return true
	}
	return false
}

// admits says whether the export of an object takes the caller's flavor.
func (k *Compound) admits(o *Object) bool { return o.Export.Admits(k.Call.Conn, &k.Call.Cred) }

// admit says whether an operation may touch the current object. What was put is refused
// there already, but for operations that judge themselves: they find k.unsuited, and must
// not look at the file system.
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

// admitSaved says whether an operation may touch the saved object. RENAME and LINK do not
// touch one in another export.
func (k *Compound) admitSaved(n wire.OpNum) Status {
	if n == wire.OpRename || n == wire.OpLink || k.admits(&k.Saved) {
		return wire.NFS4OK
	}
	return k.cannotSay(n, wire.NFS4ErrAccess)
}

// cannotSay refuses a caller for its flavor in an operation that does not have the error
// for it: with another status. Where the export was replaced since the object was put, the
// client sends the compound once more, and is told then; GETFH cannot ask for that.
func (k *Compound) cannotSay(n wire.OpNum, other Status) Status {
	if k.replaced && n != wire.OpGetFH {
		return wire.NFS4ErrDelay
	}
	return other
}

// arrive judges the object that a LOOKUP or LOOKUPP has led to.
func (k *Compound) arrive() Status {
	if k.admits(&k.Current) {
		return wire.NFS4OK
	}
	return k.wrongSec(&k.Current)
}

// out is child for a directory of an export that does not take the caller's flavor: its
// file system is not asked. The name may lead into another export; if not, it is the
// directory itself that is returned, whose policy each name in it has.
func (k *Compound) out(name []byte) (Object, Status) {
	if s := k.checkName(name); s != wire.NFS4OK {
		return Object{}, s
	}
	switch e, s := k.below(name); {
	case s != wire.NFS4OK:
		return Object{}, s
	case e != nil:
		return Object{e, e.FS.Root()}, wire.NFS4OK
	}
	return k.Current, wire.NFS4OK
}

// wrongSec refuses a caller for its flavor.
func (k *Compound) wrongSec(o *Object) Status {
	k.Program.exports.RefusedFlavor(k.Call.Conn, o.Export, &k.Call.Cred)
	return wire.NFS4ErrWrongSec
}

// A Maintainer is a Session that tells the machine of a client from its users.
type Maintainer interface {
	// MachineMay says that the caller has the client's machine credential, and that the
	// client wants it to be good for an operation on state of any of its users.
	MachineMay(cred *rpc.Cred, op wire.OpNum) bool
}

// machineMay asks the session, where it can tell.
func (k *Compound) machineMay(n wire.OpNum) bool {
	m, ok := k.Session.(Maintainer)
	return ok && m.MachineMay(&k.Call.Cred, n)
}

// willMaintain says that what follows the current operation is one that the machine of
// the client may do for its users, perhaps behind a GETATTR. It comes under the flavor
// that the client took for the maintenance of its state, which need not be one of the
// export's: a client whose users are under krb5p closes their files under krb5i.
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

// maxBitmap is the longest bitmap that is looked past, in words.
const maxBitmap = 16
