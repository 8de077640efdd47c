package nfs4

import (
	"errors"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// readlink is READLINK (RFC 8881 §18.24, RFC 7530 §16.25). The transport may place the text
// directly.
func readlink(k *Compound) Status {
	room := k.PayloadRoom(4)
	text := k.Call.ResultMemory(nfs.MaxPath)
	if text == nil {
		return k.tooBig()
	}
	n, err := k.FS().ReadLink(&k.Op, k.Current.Handle, text, &k.Attr)
	switch {
	case errors.Is(err, syscall.EINVAL):
		return k.notALink()
	case err != nil:
		return k.Failed(err)
	case n > room:
		return k.tooBig()
	}
	res := wire.Readlink4ResOK{Link: k.Call.Eligible(text[:n:n])}
	res.Encode(k.W)
	return wire.NFS4OK
}

// notALink returns the status of a READLINK of an object that is no symbolic link.
func (k *Compound) notALink() Status {
	t, s := k.kind()
	switch {
	case s != wire.NFS4OK:
		return s
	case t != vfs.Symlink && k.Minor > 0:
		return wire.NFS4ErrWrongType
	}
	return wire.NFS4ErrInvalid
}
