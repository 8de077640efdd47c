package nfs4

import (
	"slices"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// out returns the object that a name leads to, in a directory of an export that does not accept the
// caller's flavor, without access to the file system: the root of another export, or the directory itself,
// because its export's policy applies to every name in it.
func (k *Compound) out(name []byte) (Object, Status) {
	if s := k.checkName(name); s != wire.NFS4OK {
		return Object{}, s
	}
	switch e, s := k.below(&k.Current, name); {
	case s != wire.NFS4OK:
		return Object{}, s
	case e != nil:
		return Object{e, e.FS.Root()}, wire.NFS4OK
	}
	return k.Current, wire.NFS4OK
}

// A Maintainer is a Session that can tell the client's machine from the client's users.
type Maintainer interface {
	// MachineMay reports whether the caller has the client's machine credential, and the client wants that
	// credential to be accepted for the operation on state of any of its users.
	MachineMay(cred *rpc.Cred, op wire.OpNum) bool
}

// secinfo is SECINFO (RFC 8881 §18.29, RFC 7530 §16.31).
func secinfo(k *Compound, args *wire.SecInfo4Args) Status {
	o, s := k.named(args.Name)
	return k.flavors(&o, s)
}

// secinfoNoName is SECINFO_NO_NAME (RFC 8881 §18.45).
func secinfoNoName(k *Compound, style *wire.SecinfoStyle4) Status {
	o, s := k.Current, wire.NFS4OK
	if *style == wire.SecinfoStyle4Parent {
		if s = k.may(state.UseNames, &k.Current, nil, nil); s != wire.NFS4OK {
			return s
		}
		o, s = k.parent()
	}
	return k.flavors(&o, s)
}

// flavors writes the security flavors under which the client may reach o. s is the status of the search
// for o. From minor version 1 on, flavors clears the current file handle, so that the client sets it again
// under one of them.
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
