package nfs4

import (
	"errors"
	"syscall"

	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// link is LINK: it gives the saved object another name, in the current directory (RFC 8881
// §18.9, RFC 7530 §16.9).
func link(k *Compound) Status {
	var args wire.Link4Args
	args.Decode(k.Args)
	if !k.Decoded() {
		return wire.NFS4ErrBadXDR
	}
	if s := k.checkName(args.Newname); s != wire.NFS4OK {
		return s
	}
	if k.Saved.Export.ID != k.Current.Export.ID { // by ID, because one export may have been replaced meanwhile
		return wire.NFS4ErrXDev
	}
	if s := k.leads(&k.Current, args.Newname, wire.NFS4ErrExist); s != wire.NFS4OK {
		return s
	}
	if s := k.may(state.UseLink, &k.Saved, nil, nil); s != wire.NFS4OK {
		return s
	}
	ch, err := k.FS().Link(&k.Op, k.Saved.Handle, k.Current.Handle, args.Newname, &k.Attr)
	if err != nil {
		return k.notLinked(err)
	}
	res := wire.Link4ResOK{Cinfo: changeInfo(&ch)}
	res.Encode(k.W)
	return wire.NFS4OK
}

// notLinked returns the status of a LINK that the file system refused. For a directory, POSIX
// answers EPERM; NFSv4 answers NFS4ERR_ISDIR.
func (k *Compound) notLinked(err error) Status {
	if !errors.Is(err, syscall.EPERM) {
		return k.unchanged(err)
	}
	switch err := k.FS().GetAttr(&k.Op, k.Saved.Handle, &k.Attr); {
	case err != nil:
		return k.Failed(err)
	case k.Attr.Type == vfs.Directory:
		return wire.NFS4ErrIsDir
	}
	return wire.NFS4ErrAccess
}
