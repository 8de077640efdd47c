package nfs4

import (
	"errors"
	"syscall"

	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// closedOr returns the status of an operation on the content of the current file that
// failed with err. If the object is no regular file, it returns NFSv4's status for that. If
// the open file was closed meanwhile, it returns the status of the stateid. Otherwise it
// returns what Failed returns.
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
