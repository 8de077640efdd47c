package nfs4

import (
	"slices"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

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

// admits reports whether the export of an object accepts the caller's flavor.
func (k *Compound) admits(o *Object) bool { return o.Export.Admits(k.Call.Conn, &k.Call.Cred) }

// admit checks that an operation may use the current object. If the object's export does not
// accept the caller's flavor, secure has already refused the object, unless the operation checks
// the flavor itself. For such an operation admit sets k.unsuited, and the operation must not
// access the file system.
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

// cannotSay returns the status for a refused flavor in an operation that cannot return
// NFS4ERR_WRONGSEC. If the export was replaced after the compound had set the file handle, the
// status is NFS4ERR_DELAY: the client repeats the compound, and the operation that sets the handle
// returns NFS4ERR_WRONGSEC. Otherwise, and for GETFH, which cannot return NFS4ERR_DELAY, cannotSay
// returns the argument other.
func (k *Compound) cannotSay(n wire.OpNum, other Status) Status {
	if k.replaced && n != wire.OpGetFH {
		return wire.NFS4ErrDelay
	}
	return other
}

// out returns the object that a name leads to, in a directory of an export that does not accept
// the caller's flavor. It does not access the file system. If the name leads into another
// export, out returns that export's root. Otherwise it returns the directory itself, because its
// export's policy applies to every name in it.
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

// wrongSec returns NFS4ERR_WRONGSEC, and reports the refusal to the table of exports
// (export.Table.OnRefusedFlavor).
func (k *Compound) wrongSec(o *Object) Status {
	k.Program.exports.OnRefusedFlavor(k.Call.Conn, o.Export, export.SecurityOf(&k.Call.Cred))
	return wire.NFS4ErrWrongSec
}

// A Maintainer is a Session that can tell the client's machine from the client's users.
type Maintainer interface {
	// MachineMay reports whether the caller has the client's machine credential, and the
	// client wants that credential to be accepted for the operation on state of any of its
	// users.
	MachineMay(cred *rpc.Cred, op wire.OpNum) bool
}

// machineMay returns what the session's MachineMay returns, and false if the session is no
// Maintainer.
func (k *Compound) machineMay(n wire.OpNum) bool {
	m, ok := k.Session.(Maintainer)
	return ok && m.MachineMay(&k.Call.Cred, n)
}

// willMaintain reports whether the next operation, after any GETATTRs, is one that the
// client's machine may do for its users. Such an operation comes under the flavor that the
// client uses to maintain its state, which the export need not accept. Example: a client
// whose users use krb5p closes their files under krb5i.
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

// secinfo is SECINFO (RFC 8881 §18.29, RFC 7530 §16.31).
func secinfo(k *Compound, args *wire.SecInfo4Args) Status {
	o, s := k.named(args.Name)
	return k.flavors(&o, s)
}

// secinfoNoName is SECINFO_NO_NAME (RFC 8881 §18.45).
func secinfoNoName(k *Compound, style *wire.SecinfoStyle4) Status {
	o, s := k.Current, wire.NFS4OK
	if *style == wire.SecinfoStyle4Parent {
		o, s = k.parent()
	}
	return k.flavors(&o, s)
}

// flavors writes the security flavors under which the client may reach o. s is the status of the
// search for o; if it is not NFS4_OK, it becomes the result. From minor version 1 on flavors clears
// the current file handle, so that the client sets the handle again, under one of these flavors.
func (k *Compound) flavors(o *Object, s Status) Status {
	switch s {
	case wire.NFS4OK:
	case wire.NFS4ErrSymlink: // SECINFO has no NFS4ERR_SYMLINK
		return wire.NFS4ErrNotDir
	default:
		return s
	}
	all := o.Export.SecurityFor(k.Call.Conn.Peer.Addr())
	if len(all) == 0 {
		all = k.securities()
	}
	k.W.Uint32(uint32(len(all)))
	for _, f := range all {
		k.putFlavor(f)
	}
	if k.Minor > 0 {
		k.SetCurrent(Object{})
	}
	return wire.NFS4OK
}

// securities returns the flavors of all exports that serve the caller. They apply to the
// directories that lead to these exports (RFC 8881 §2.6.3.1).
func (k *Compound) securities() (all []export.Security) {
	c := k.Call.Conn
	for _, e := range k.Program.exports.All() {
		if !e.Serves(c, &k.Call.Cred) {
			continue
		}
		some := e.SecurityFor(c.Peer.Addr())
		if len(some) == 0 {
			some = export.Securities[:1]
		}
		for _, s := range some {
			if !slices.Contains(all, s) {
				all = append(all, s)
			}
		}
	}
	if len(all) == 0 {
		all = export.Securities[:1]
	}
	return all
}

// kerberos is the object identifier of Kerberos version 5 (RFC 4121 §1), the content
// octets of its DER encoding.
var kerberos = []byte{0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02}

// putFlavor writes a secinfo4 (RFC 8881 §18.29.2): the flavor and, for RPCSEC_GSS, the
// mechanism, the default quality of protection, and the service.
func (k *Compound) putFlavor(s export.Security) {
	service := s.GSSService()
	if service == 0 {
		k.W.Uint32(uint32(s))
		return
	}
	k.W.Uint32(uint32(rpc.AuthGSS))
	k.W.Opaque(kerberos)
	k.W.Uint32(0)
	k.W.Uint32(uint32(service))
}
