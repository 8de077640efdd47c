package nfs4

import (
	"bytes"
	"errors"
	"syscall"
	"unicode/utf8"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/pseudo"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// maxName is the length of the longest name that any file system here can have, in bytes.
// Longer names are refused without a call to the file system.
const maxName = 255

// checkName refuses names that must not reach a file system: empty names, names longer than
// maxName, "." and "..", names with a slash or a zero byte and, if the export's names are UTF-8,
// names that are not (RFC 8881 §14.5, §15.1.7).
func (k *Compound) checkName(name []byte) Status {
	switch {
	case len(name) == 0:
		return wire.NFS4ErrInvalid
	case len(name) > maxName:
		return wire.NFS4ErrNameTooLong
	case string(name) == ".", string(name) == "..":
		return wire.NFS4ErrBadName
	case bytes.IndexByte(name, '/') >= 0, bytes.IndexByte(name, 0) >= 0:
		return wire.NFS4ErrBadChar
	case k.Current.IsSet() && k.Current.Export.UTF8 && !utf8.Valid(name):
		return wire.NFS4ErrInvalid
	}
	return wire.NFS4OK
}

// lookAround returns a pseudo.View through which an operation looks up names in other exports, with
// the rights of the compound's caller.
func (k *Compound) lookAround() *pseudo.View {
	k.view.Conn, k.view.Caller, k.view.Looked = k.Call.Conn, &k.Call.Cred, &k.looked
	k.view.Op.Try = k.Op.Try
	return &k.view
}

// mayLead reports whether a name in a directory of e could lead into another export. It does not
// call the file system. If it returns true, call k.below or k.belowOf for the exact answer.
func (k *Compound) mayLead(e *export.Export, name []byte) bool {
	names := k.Program.names
	return names != nil && names.MayLead(e, name)
}

// below returns the export into which a name in the current directory leads, or nil. If the
// file system fails, it returns the status of that failure.
func (k *Compound) below(name []byte) (*export.Export, Status) { return k.belowOf(&k.Current, name) }

// belowOf is like below, for the directory o. The caller has marked the export of o as in use.
func (k *Compound) belowOf(o *Object, name []byte) (*export.Export, Status) {
	if !k.mayLead(o.Export, name) {
		return nil, wire.NFS4OK
	}
	at := pseudo.Place{Export: o.Export, Handle: o.Handle}
	e, err := k.Program.names.Below(k.lookAround(), &at, name)
	if err != nil {
		return nil, k.Failed(err)
	}
	return e, wire.NFS4OK
}

// opIn returns an Op with the caller's identity in the export of o. It is valid until the
// next call of opIn or of a method of k.Program.names.
func (k *Compound) opIn(o *Object) *vfs.Op {
	if o.Export == k.Current.Export {
		return &k.Op
	}
	return k.lookAround().As(o.Export)
}

// child finds the object that a name in the current directory leads to, as LOOKUP does.
// k.Attr receives its attributes; k.Attr.Type is 0 if they are not known. k.dirChange receives
// the directory's change attribute, unless the name leads into another export.
func (k *Compound) child(name []byte) (Object, Status) {
	k.Attr = vfs.Attr{}
	if s := k.checkName(name); s != wire.NFS4OK {
		return Object{}, s
	}
	e, s := k.below(name)
	if s != wire.NFS4OK {
		return Object{}, s
	}
	if e != nil {
		return Object{e, e.FS.Root()}, wire.NFS4OK
	}
	o, err := k.FS().Lookup(&k.Op, k.Current.Handle, name, &k.Attr)
	if err != nil {
		if e, err = k.cross(err, name); err != nil {
			k.unseen(err, name)
			return Object{}, k.notFound(err)
		}
		k.Attr = vfs.Attr{}
		return Object{e, e.FS.Root()}, wire.NFS4OK
	}
	k.dirChange = k.Attr.Change
	if k.Attr = (vfs.Attr{}); o.HasAttr {
		k.Attr = o.Attr
	}
	return Object{k.Current.Export, o.Handle}, wire.NFS4OK
}

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

// named returns the object that a name leads to. It calls child, or out if the export of
// the current directory does not accept the caller's flavor.
func (k *Compound) named(name []byte) (Object, Status) {
	if k.unsuited {
		return k.out(name)
	}
	return k.child(name)
}

// cross returns the export of the file system that is mounted on a name of the current directory.
// err is the error of the name's Lookup; EXDEV means that a file system is mounted on the name. If
// err is another error, or if the current export does not have the option crossmnt, cross returns
// err. If the server does not export the mount to the caller, cross returns another error.
func (k *Compound) cross(err error, name []byte) (*export.Export, error) {
	names := k.Program.names
	if names == nil || !k.Current.Export.CrossMount || !errors.Is(err, syscall.EXDEV) {
		return nil, err
	}
	at := pseudo.Place{Export: k.Current.Export, Handle: k.Current.Handle}
	return names.Cross(k.lookAround(), &at, name)
}

// notFound returns the status of a Lookup that failed with err. If another file system is mounted
// on the name (EXDEV), the server hides the name from the client. The only NFSv4 status for this is
// NFS4ERR_ACCESS.
func (k *Compound) notFound(err error) Status {
	if errors.Is(err, syscall.EXDEV) {
		return wire.NFS4ErrAccess
	}
	return k.notDirectory(err)
}

// notDirectory returns the status of an operation on a directory that failed with err. If
// the current object is a symbolic link, the status is NFS4ERR_SYMLINK instead of
// NFS4ERR_NOTDIR (RFC 8881 §18.13.4).
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

// lookup is LOOKUP (RFC 8881 §18.13, RFC 7530 §16.13).
func lookup(k *Compound, args *wire.Lookup4Args) Status {
	o, s := k.named(args.Objname)
	if s == wire.NFS4OK {
		k.SetCurrent(o)
		if !k.unsuited && k.Attr.Type != 0 {
			k.brought()
		}
	}
	return s
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

// Rights of ACCESS. NFSv4 numbers them as vfs does. LOOKUP and DELETE mean nothing for an
// object that is not a directory, and EXECUTE means nothing for a directory (RFC 8881
// §18.1.3).
const (
	allRights       = vfs.AccessRead | vfs.AccessLookup | vfs.AccessModify | vfs.AccessExtend | vfs.AccessDelete | vfs.AccessExecute
	changing        = vfs.AccessModify | vfs.AccessExtend | vfs.AccessDelete | vfs.AccessXattrWrite
	notOfFiles      = vfs.AccessLookup | vfs.AccessDelete
	notOfDirs       = vfs.AccessExecute
	_          uint = uint(vfs.AccessExecute) - wire.Access4Execute     // does not compile if vfs's number is lower
	_          uint = uint(vfs.AccessXattrList) - wire.Access4XattrList // the same check for the highest bit
)

// access is ACCESS (RFC 8881 §18.1, RFC 7530 §16.1). On a read-only export it grants no right
// that allows a change.
func access(k *Compound, args *wire.Access4Args) Status {
	if args.Access&^k.rights() != 0 {
		return wire.NFS4ErrInvalid
	}
	want := vfs.Access(args.Access) & allRights
	if k.keepsXattrs() {
		want = vfs.Access(args.Access)
	}
	k.Attr = vfs.Attr{}
	granted, err := k.FS().Access(&k.Op, k.Current.Handle, want, &k.Attr)
	if err != nil {
		return k.Failed(err)
	}
	if k.Attr.Type != 0 {
		k.brought()
	}
	if k.Attr.Type == vfs.Directory {
		want &^= notOfDirs
	} else {
		want &^= notOfFiles
	}
	if k.Current.Export.ReadOnly {
		granted &^= changing
	}
	res := wire.Access4ResOK{Supported: uint32(want), Access: uint32(granted & want)}
	res.Encode(k.W)
	return wire.NFS4OK
}

// rights returns the access bits that the minor version defines.
func (k *Compound) rights() uint32 {
	if k.Minor < 2 {
		return uint32(allRights)
	}
	return uint32(allRights) | wire.Access4XattrRead | wire.Access4XattrWrite | wire.Access4XattrList
}
