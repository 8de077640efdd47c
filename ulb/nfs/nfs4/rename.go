package nfs4

import (
	"errors"
	"syscall"

	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// rename is RENAME, from the saved directory to the current one (RFC 8881 §18.26,
// RFC 7530 §16.27).
func rename(k *Compound) Status {
	var args wire.Rename4Args
	args.Decode(k.Args)
	if !k.Decoded() {
		return wire.NFS4ErrBadXDR
	}
	for _, name := range [...][]byte{args.Oldname, args.Newname} {
		if s := k.checkName(name); s != wire.NFS4OK {
			return s
		}
	}
	if k.Saved.Export.ID != k.Current.Export.ID { // by ID, because one export may have been replaced meanwhile
		if !k.admits(&k.Saved) {
			return wire.NFS4ErrXDev
		}
		return k.apart()
	}
	if s := k.leads(&k.Saved, args.Oldname, wire.NFS4ErrXDev); s != wire.NFS4OK {
		return s
	}
	if s := k.leads(&k.Current, args.Newname, wire.NFS4ErrXDev); s != wire.NFS4OK {
		return s
	}
	if s := k.may(state.UseRename, &k.Saved, args.Oldname, nil); s != wire.NFS4OK {
		return s
	}
	if s := k.may(state.UseRemove, &k.Current, args.Newname, nil); s != wire.NFS4OK {
		return s
	}
	from, to, err := k.FS().Rename(&k.Op, k.Saved.Handle, args.Oldname, k.Current.Handle, args.Newname)
	if err != nil {
		return k.notRenamed(err)
	}
	res := wire.Rename4ResOK{SourceCinfo: changeInfo(&from), TargetCinfo: changeInfo(&to)}
	res.Encode(k.W)
	return wire.NFS4OK
}

// notRenamed returns the status of a RENAME that the file system refused. ENOTDIR has two
// possible causes: one of the two handles is no directory, or one name belongs to a
// directory and the other does not.
func (k *Compound) notRenamed(err error) Status {
	switch {
	case errors.Is(err, syscall.EISDIR):
		return wire.NFS4ErrExist
	case errors.Is(err, syscall.ENOTDIR):
		if s := k.apart(); s != wire.NFS4ErrXDev {
			return s
		}
		return wire.NFS4ErrExist
	}
	return k.unchanged(err)
}

// apart returns NFS4ERR_NOTDIR if the saved or the current object is no directory, and
// NFS4ERR_XDEV otherwise.
func (k *Compound) apart() Status {
	for _, o := range [...]*Object{&k.Saved, &k.Current} {
		switch err := o.Export.FS.GetAttr(k.opIn(o), o.Handle, &k.Attr); {
		case err != nil:
			return k.Failed(err)
		case k.Attr.Type != vfs.Directory:
			return wire.NFS4ErrNotDir
		}
	}
	return wire.NFS4ErrXDev
}
