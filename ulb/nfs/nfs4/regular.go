package nfs4

import (
	"errors"
	"syscall"

	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// closedOr is Failed for an operation on the content of the current file, by an open file
// or without: where the object is no regular file it says so in the protocol's words, and
// where the open file was closed meanwhile, what became of the stateid.
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

// regular is NFS4_OK where the current object is a regular file. It leaves its attributes
// in k.Attr.
func (k *Compound) regular() Status {
	if err := k.FS().GetAttr(&k.Op, k.Current.Handle, &k.Attr); err != nil {
		return k.Failed(err)
	}
	return k.mustBeRegular(k.Attr.Type)
}

// orOfType is s, the status of an operation with a stateid. Where the stateid is not one
// of the current object, and none can be because that is no regular file, LOCK and
// OPEN_CONFIRM of minor version 0 say so (RFC 7530 §13.2: NFS4ERR_ISDIR, NFS4ERR_INVAL).
func (k *Compound) orOfType(s Status) Status {
	if s != wire.NFS4ErrBadStateID || k.Minor != 0 || k.postponed != wire.NFS4OK || k.Number != wire.OpLock && k.Number != wire.OpOpenConfirm {
		return s
	}
	if t := k.regular(); t != wire.NFS4OK {
		return t
	}
	return s
}

// mustBeRegular is what an operation on a file's content is answered about an object of a
// type (RFC 8881 §18.16.4, §18.22.3; RFC 7530 §16.16.6, §16.23.5; of two files RFC 7862
// §15.2.3, §15.13.3). SETATTR of a size has no other error for that (RFC 8881 §15.2).
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
