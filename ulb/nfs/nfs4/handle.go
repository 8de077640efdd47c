package nfs4

import (
	"errors"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
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

// present returns NFS4ERR_STALE if the object of a PUTFH no longer exists (RFC 8881
// §15.1.2.7). It checks this only if no later operation would notice: if PUTFH is the last
// operation, or GETFH follows it.
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

// Seal returns the file handle that the server sends to clients for o. The bytes are valid until
// the next call of Seal.
func (k *Compound) Seal(o *Object) []byte {
	return k.Program.exports.Seal(k.sealed[:0], o.Export, o.Handle)
}

// closedOr returns the status of an operation on the content of the current file that failed
// with err. If the object is no regular file, it returns the status for the object's type (see
// mustBeRegular). If the open file was closed meanwhile, it returns the status of the stateid.
// Otherwise it returns what Failed returns.
func (k *Compound) closedOr(err error) Status {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return k.Failed(err)
	}
	switch errno {
	case syscall.EBADF:
		return k.closed()
	case syscall.EISDIR, syscall.EINVAL, syscall.ELOOP, syscall.ENXIO:
		if s := k.regular(); s != wire.NFS4OK {
			return s
		}
	}
	return k.Failed(err)
}

// regular returns NFS4_OK if the current object is a regular file. It leaves the object's
// attributes in k.Attr.
func (k *Compound) regular() Status {
	if err := k.FS().GetAttr(&k.Op, k.Current.Handle, &k.Attr); err != nil {
		return k.Failed(err)
	}
	return k.mustBeRegular(k.Attr.Type)
}

// orOfType returns s, the status of an operation with a stateid, except in one case. If a
// LOCK or OPEN_CONFIRM of minor version 0 has a bad stateid and the object is no regular
// file, the status names the object's type (RFC 7530 §13.2: NFS4ERR_ISDIR, NFS4ERR_INVAL).
func (k *Compound) orOfType(s Status) Status {
	if s != wire.NFS4ErrBadStateID || k.Minor != 0 || k.postponed != wire.NFS4OK || k.Number != wire.OpLock && k.Number != wire.OpOpenConfirm {
		return s
	}
	if t := k.regular(); t != wire.NFS4OK {
		return t
	}
	return s
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
