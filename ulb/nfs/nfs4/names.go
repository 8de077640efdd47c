package nfs4

import (
	"errors"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/pseudo"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// unseen tells the administrator that the client did not find a name in the tree of exports,
// because such a refusal makes the client's mount fail.
func (k *Compound) unseen(err error, name []byte) {
	names, c := k.Program.names, k.Call.Conn
	if names == nil || k.Current.Export != k.Program.exports.Root() || !errors.Is(err, syscall.ENOENT) {
		return
	}
	r := export.Refusal{Client: c.Peer, Status: wire.NFS4ErrNoEnt}
	switch r.Path, r.Export = names.Unseen(k.Current.Handle, name); {
	case r.Export == nil:
		r.Reason = export.NoExport
	case r.Export.ServesAddr(c.Peer.Addr()):
		r.Reason = export.UnprivilegedPort
	default:
		r.Reason = export.NotAClient
	}
	k.Program.exports.OnRefusal(&r)
}

// cross returns the export of the file system that is mounted on a name, whose Lookup failed with err. If
// err is not EXDEV, or the current export does not have the option crossmnt, cross returns err. If the
// server does not export the mount to the caller, cross returns another error.
func (k *Compound) cross(err error, name []byte) (*export.Export, error) {
	names := k.Program.names
	if names == nil || !k.Current.Export.CrossMount || !errors.Is(err, syscall.EXDEV) {
		return nil, err
	}
	at := pseudo.Place{Export: k.Current.Export, Handle: k.Current.Handle}
	return names.Cross(k.lookAround(), &at, name)
}

// notFound returns the status of a Lookup that failed with err. With EXDEV, another file system is mounted
// on the name. The server hides it, for which NFSv4 has only NFS4ERR_ACCESS.
func (k *Compound) notFound(err error) Status {
	if errors.Is(err, syscall.EXDEV) {
		return wire.NFS4ErrAccess
	}
	return k.notDirectory(err)
}

// notDirectory returns the status of an operation on a directory that failed with err. For a symbolic
// link, it is NFS4ERR_SYMLINK instead of NFS4ERR_NOTDIR (RFC 8881 §18.13.4).
func (k *Compound) notDirectory(err error) Status {
	if !errors.Is(err, syscall.ENOTDIR) {
		return k.Failed(err)
	}
	switch t, s := k.kind(); {
	case s != wire.NFS4OK:
		return s
	case t == vfs.Symlink:
		return wire.NFS4ErrSymlink
	}
	return wire.NFS4ErrNotDir
}

// kind returns the type of the current object. k.Attr receives its attributes.
func (k *Compound) kind() (vfs.Type, Status) {
	if err := k.FS().GetAttr(&k.Op, k.Current.Handle, &k.Attr); err != nil {
		return 0, k.Failed(err)
	}
	return k.Attr.Type, wire.NFS4OK
}

// lookupParent is LOOKUPP (RFC 8881 §18.14, RFC 7530 §16.14).
func lookupParent(k *Compound) Status {
	o, s := k.parent()
	if s == wire.NFS4OK {
		k.SetCurrent(o)
	}
	return s
}

// parent returns the directory above the current one. If the current one is the root of its
// export, the parent lies in another export.
func (k *Compound) parent() (Object, Status) {
	if k.Current.Handle == k.FS().Root() {
		if k.Program.names == nil {
			return Object{}, wire.NFS4ErrNoEnt
		}
		p, err := k.Program.names.Above(k.lookAround(), k.Current.Export)
		if err != nil {
			return Object{}, k.notFound(err)
		}
		return Object{p.Export, p.Handle}, wire.NFS4OK
	}
	if k.unsuited { // the parent is in the same export
		return k.Current, wire.NFS4OK
	}
	o, err := k.FS().Lookup(&k.Op, k.Current.Handle, dotDot, &k.Attr)
	if err != nil {
		return Object{}, k.notFound(err)
	}
	return Object{k.Current.Export, o.Handle}, wire.NFS4OK
}

var dotDot = []byte("..")
