package nfs4

import (
	"github.com/nfsrdmad/nfsrdmad/rpc"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// NFS4ERR_WRONGSEC is the answer of the operation that puts a handle of an export whose
// flavors do not have the caller's, unless the next one does not touch the object, or
// finds out about flavors (RFC 8881 §2.6.3.1.1). Most others have no such error.

// puts says whether an operation makes another object the current one.
func puts(n wire.OpNum) bool {
	switch n {
	case wire.OpPutFH, wire.OpPutPubFH, wire.OpPutRootFH, wire.OpRestoreFH, wire.OpLookup, wire.OpLookupp:
		return true
	}
	return false
}

// secure judges the object that the current operation has put, by the operation that
// follows.
func (k *Compound) secure() Status {
	k.maintains = false
	if k.Current.Export.Admits(k.Call.Conn, &k.Call.Cred) {
		return wire.NFS4OK
	}
	if k.maintains = k.willMaintain(); k.maintains {
		return wire.NFS4OK
	}
	rest := *k.Args
	for i := k.Index + 1; i < k.Count; i++ {
		switch next := wire.OpNum(rest.Uint32()); {
		case next == wire.OpSaveFH: // the one behind it decides
		case harmless(next) || answersWrongSec(next):
			return wire.NFS4OK
		default:
			return k.wrongSec(&k.Current)
		}
	}
	return wire.NFS4OK
}

// harmless says whether an operation is for callers under any flavor: it puts another
// object, or finds out about flavors.
func harmless(n wire.OpNum) bool {
	return n == wire.OpSecInfo || n == wire.OpSecInfoNoName || puts(n) && n != wire.OpLookup
}

// answersWrongSec says whether an operation on an object may have that answer itself.
func answersWrongSec(n wire.OpNum) bool {
	switch n {
	case wire.OpLookup, wire.OpOpen, wire.OpLink, wire.OpRename:
		return true
	}
	return false
}

// admitted says whether an operation may touch an object: the current one, or the saved.
// An object that was put is refused there already, but for an export that was replaced
// meanwhile, and operations that bring two together.
func (k *Compound) admitted(n wire.OpNum, o *Object) Status {
	switch {
	case n == wire.OpSaveFH || harmless(n) || o.Export.Admits(k.Call.Conn, &k.Call.Cred):
		return wire.NFS4OK
	case k.maintains && (n == wire.OpGetattr || k.machineMay(n)):
		return wire.NFS4OK
	case answersWrongSec(n):
		return k.wrongSec(o)
	}
	return wire.NFS4ErrStale
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
