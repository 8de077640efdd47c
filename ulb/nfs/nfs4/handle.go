package nfs4

import (
	"bytes"
	"errors"
	"unicode/utf8"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/pseudo"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// An Object is the export and the file that a file handle of a compound names. The zero value
// names nothing.
type Object struct {
	Export *export.Export
	Handle vfs.Handle
}

// IsSet reports whether o names an object.
func (o *Object) IsSet() bool { return o.Export != nil }

// key returns the key under which the state manager keeps the file.
func (o *Object) key() state.FileKey {
	return state.FileKey{Domain: state.DomainOf(o.Export.FS), Handle: o.Handle}
}

// putFH is PUTFH (RFC 8881 §18.19).
func putFH(k *Compound, args *wire.PutFH4Args) Status {
	o, err := k.Program.exports.Find(args.Object)
	switch {
	case errors.Is(err, export.ErrGone):
		return wire.NFS4ErrStale
	case err != nil:
		return wire.NFS4ErrBadHandle
	case !o.Export.Serves(k.Call.Conn, &k.Call.Cred):
		return wire.NFS4ErrStale
	}
	next := Object{o.Export, o.Handle}
	if k.Call.Early && !k.Current.IsSet() && k.admits(&next) && !k.refused(o.Export) {
		// Judge found a reason to end the compound here, so the rest of it was not fetched. The
		// reason has gone meanwhile, so the client must send the compound again.
		return wire.NFS4ErrDelay
	}
	k.SetCurrent(next)
	return wire.NFS4OK
}

// present returns NFS4ERR_STALE if the object of a PUTFH no longer exists (RFC 8881 §15.1.2.7), but only
// if no later operation would notice: if PUTFH is the last one, or GETFH follows it.
func (k *Compound) present() Status {
	next := *k.Args
	if k.Index+1 < k.Count && wire.OpNum(next.Uint32()) != wire.OpGetFH || !k.admits(&k.Current) || k.refused(k.Current.Export) {
		return wire.NFS4OK
	}
	if s := k.enter(0, &k.Current); s != wire.NFS4OK {
		return s
	}
	err := k.FS().GetAttr(k.lookAround().As(k.Current.Export), k.Current.Handle, &k.Attr)
	if err == nil {
		return wire.NFS4OK
	}
	switch s := k.Failed(err); s {
	case wire.NFS4ErrStale, wire.NFS4ErrDelay, Blocked, Waiting:
		return s
	}
	return wire.NFS4OK // an operation that uses the object reports other errors
}

// Seal returns the file handle that the server sends to clients for o. The bytes are valid until
// the next call of Seal.
func (k *Compound) Seal(o *Object) []byte {
	return k.Program.exports.Seal(k.sealed[:0], o.Export, o.Handle)
}

// getFH is GETFH (RFC 8881 §18.8).
func getFH(k *Compound) Status {
	res := wire.GetFH4ResOK{Object: k.Seal(&k.Current)}
	res.Encode(k.W)
	if k.Brought() {
		k.brought() // the attributes stay valid for the next operation
	}
	return wire.NFS4OK
}

// saveFH is SAVEFH (RFC 8881 §18.28).
func saveFH(k *Compound) Status {
	k.Saved, k.SavedStateID = k.Current, k.StateID
	return wire.NFS4OK
}

// restoreFH is RESTOREFH (RFC 8881 §18.27).
func restoreFH(k *Compound) Status {
	switch {
	case k.Saved.IsSet():
	case k.Minor == 0:
		return wire.NFS4ErrRestoreFH
	default: // later minor versions have one status for both handles (RFC 8881 §15.1.16)
		return wire.NFS4ErrNoFileHandle
	}
	k.Current, k.StateID = k.Saved, k.SavedStateID
	return wire.NFS4OK
}

// putRootFH is PUTROOTFH and PUTPUBFH (RFC 8881 §18.20, §18.21).
func putRootFH(k *Compound) Status {
	if names := k.Program.names; names != nil {
		p := names.Start(k.Call.Conn, &k.Call.Cred)
		k.SetCurrent(Object{p.Export, p.Handle})
		return wire.NFS4OK
	}
	e := k.Program.exports.Root()
	if e == nil {
		return wire.NFS4ErrServerFault
	}
	k.SetCurrent(Object{e, e.FS.Root()})
	return wire.NFS4OK
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

// named returns the object that a name leads to. It calls child, or out if the export of
// the current directory does not accept the caller's flavor.
func (k *Compound) named(name []byte) (Object, Status) {
	if k.unsuited {
		return k.out(name)
	}
	return k.child(name)
}

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

// child finds the object that a name in the current directory leads to. k.Attr receives its attributes,
// with Type 0 if they are not known, and k.dirChange the directory's change attribute, unless the name
// leads into another export.
func (k *Compound) child(name []byte) (Object, Status) {
	k.Attr = vfs.Attr{}
	if s := k.checkName(name); s != wire.NFS4OK {
		return Object{}, s
	}
	e, s := k.below(&k.Current, name)
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

// below returns the export into which a name in directory o leads, or nil. If the file system fails, it
// returns the status of that failure. The caller has marked the export of o as in use.
func (k *Compound) below(o *Object, name []byte) (*export.Export, Status) {
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

// mayLead reports whether a name in a directory of e could lead into another export. It does not
// call the file system. If it returns true, call k.below for the exact answer.
func (k *Compound) mayLead(e *export.Export, name []byte) bool {
	names := k.Program.names
	return names != nil && names.MayLead(e, name)
}

// lookAround returns a pseudo.View through which an operation looks up names in other exports, with
// the rights of the compound's caller.
func (k *Compound) lookAround() *pseudo.View {
	k.view.Conn, k.view.Caller, k.view.Looked = k.Call.Conn, &k.Call.Cred, &k.looked
	k.view.Op.Try = k.Op.Try
	return &k.view
}

// opIn returns an Op with the caller's identity in the export of o. It is valid until the
// next call of opIn or of a method of k.Program.names.
func (k *Compound) opIn(o *Object) *vfs.Op {
	if o.Export == k.Current.Export {
		return &k.Op
	}
	return k.lookAround().As(o.Export)
}

// regular returns NFS4_OK if the current object is a regular file. It leaves the object's
// attributes in k.Attr.
func (k *Compound) regular() Status {
	if err := k.FS().GetAttr(&k.Op, k.Current.Handle, &k.Attr); err != nil {
		return k.Failed(err)
	}
	return k.mustBeRegular(k.Attr.Type)
}

// mustBeRegular returns NFS4_OK if t is a regular file. Otherwise it returns the status of
// an operation on content for an object of type t (RFC 8881 §18.16.4, §18.22.3; RFC 7530
// §16.16.6, §16.23.5; for COPY and CLONE RFC 7862 §15.2.3, §15.13.3). A SETATTR of the size
// returns NFS4ERR_WRONG_TYPE for every type from minor version 1 on (RFC 8881 §15.2).
func (k *Compound) mustBeRegular(t vfs.Type) Status {
	switch {
	case t == vfs.Regular:
		return wire.NFS4OK
	case k.Number == wire.OpCopy, k.Number == wire.OpClone, k.Number == wire.OpSetattr && k.Minor > 0:
		return wire.NFS4ErrWrongType
	case t == vfs.Directory:
		return wire.NFS4ErrIsDir
	case k.Minor == 0 && k.Number != wire.OpOpen:
		return wire.NFS4ErrInvalid
	case t == vfs.Symlink, k.Minor == 0:
		return wire.NFS4ErrSymlink
	}
	return wire.NFS4ErrWrongType
}
