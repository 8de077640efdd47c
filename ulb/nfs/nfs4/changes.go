package nfs4

import (
	"cmp"
	"errors"
	"syscall"

	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// create is CREATE: it creates every type but regular files (RFC 8881 §18.4, RFC 7530 §16.4).
func create(k *Compound, args *wire.Create4Args) Status {
	switch args.Objtype.Type {
	case wire.NF4Dir, wire.NF4Lnk, wire.NF4Blk, wire.NF4Chr, wire.NF4Sock, wire.NF4Fifo:
	default:
		return wire.NFS4ErrBadType
	}
	if s := k.checkName(args.Objname); s != wire.NFS4OK {
		return s
	}
	if args.Objtype.Type == wire.NF4Lnk && len(args.Objtype.Linkdata.Data) == 0 {
		return wire.NFS4ErrInvalid
	}
	a := &k.assignment
	if s := k.assign(&args.Createattrs, a); s != wire.NFS4OK {
		return s
	}
	if a.set.SetSize { // none of these types has a size to set
		return wire.NFS4ErrInvalid
	}
	if s := k.leads(&k.Current, args.Objname, wire.NFS4ErrExist); s != wire.NFS4OK {
		return s
	}
	if s := k.maySet(state.UseCreate, &k.Current, args.Objname, &a.set); s != wire.NFS4OK {
		return s
	}
	o, ch, err := k.make(&args.Objtype, args.Objname, &a.set)
	if err != nil {
		return k.Failed(err)
	}
	k.SetCurrent(Object{k.Current.Export, o.Handle})
	if o.HasAttr {
		k.Attr = o.Attr
		k.brought()
	}
	res := wire.Create4ResOK{Cinfo: changeInfo(&ch), Attrset: a.applied(&o)}
	res.Encode(k.W)
	return wire.NFS4OK
}

// make creates an object of type t in the current directory.
func (k *Compound) make(t *wire.Createtype4, name []byte, s *vfs.SetAttr) (vfs.Object, vfs.Change, error) {
	dir, dev := k.Current.Handle, &t.Devdata // dev is 0 unless t is a device
	switch t.Type {
	case wire.NF4Dir:
		return k.FS().Mkdir(&k.Op, dir, name, s)
	case wire.NF4Lnk:
		return k.FS().Symlink(&k.Op, dir, name, t.Linkdata.Data, s)
	}
	return k.FS().Mknod(&k.Op, dir, name, vfs.Type(t.Type), s, dev.Specdata1, dev.Specdata2)
}

// remove is REMOVE, for files and directories (RFC 8881 §18.25, RFC 7530 §16.26).
func remove(k *Compound, args *wire.Remove4Args) Status {
	if s := k.checkName(args.Target); s != wire.NFS4OK {
		return s
	}
	if s := k.leads(&k.Current, args.Target, wire.NFS4ErrAccess); s != wire.NFS4OK {
		return s
	}
	if s := k.may(state.UseRemove, &k.Current, args.Target, nil); s != wire.NFS4OK {
		return s
	}
	ch, err := k.unlink(args.Target)
	if err != nil {
		return k.unchanged(err)
	}
	res := wire.Remove4ResOK{Cinfo: changeInfo(&ch)}
	res.Encode(k.W)
	return wire.NFS4OK
}

// unlink removes a name from the current directory. It tries to remove a file first. If the
// file system answers that the name belongs to a directory, unlink removes the directory.
func (k *Compound) unlink(name []byte) (vfs.Change, error) {
	dir := k.Current.Handle
	ch, err := k.FS().Remove(&k.Op, dir, name)
	isDir := errors.Is(err, syscall.EISDIR)
	if errors.Is(err, syscall.EPERM) { // POSIX allows EPERM for a directory too
		o, lookErr := k.FS().Lookup(&k.Op, dir, name, &k.Attr)
		if blocked(lookErr) {
			return ch, lookErr
		}
		isDir = lookErr == nil && o.HasAttr && o.Attr.Type == vfs.Directory
	}
	if isDir {
		return k.FS().Rmdir(&k.Op, dir, name)
	}
	return ch, err
}

// rename is RENAME, from the saved directory to the current one (RFC 8881 §18.26, RFC 7530 §16.27).
func rename(k *Compound, args *wire.Rename4Args) Status {
	if s := cmp.Or(k.checkName(args.Oldname), k.checkName(args.Newname)); s != wire.NFS4OK {
		return s
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
	if s := k.may(state.UseCreate, &k.Current, args.Newname, nil); s != wire.NFS4OK {
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

// notRenamed returns the status of a RENAME that the file system refused. ENOTDIR has two possible causes:
// a handle that is no directory, or a directory and another object as the two names.
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

// link is LINK: it gives the saved object another name, in the current directory (RFC 8881
// §18.9, RFC 7530 §16.9).
func link(k *Compound, args *wire.Link4Args) Status {
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
	if s := k.may(state.UseCreate, &k.Current, args.Newname, nil); s != wire.NFS4OK {
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

// changeInfo converts the change of an object to change_info4 (RFC 8881 §3.3.1). If the
// value before or after the change is not known, the result is not atomic.
func changeInfo(ch *vfs.Change) (c wire.ChangeInfo4) {
	if ch.HasAfter {
		c.After = ch.After.Change
	}
	if ch.HasBefore {
		c.Before = ch.Before.Change
	}
	c.Atomic = ch.Atomic && ch.HasBefore && ch.HasAfter
	return c
}

// unchanged returns the status of a failed REMOVE, RENAME or LINK. The standards have no NFS4ERR_PERM for
// them, so EPERM, which the file system returns for a sticky directory, becomes NFS4ERR_ACCESS.
func (k *Compound) unchanged(err error) Status {
	if errors.Is(err, syscall.EPERM) {
		return wire.NFS4ErrAccess
	}
	return k.Failed(err)
}

// leads returns the given status if a name in directory o leads into another export, because the operation
// must not touch such a name. Otherwise it returns NFS4_OK, or the status of a failed lookup.
func (k *Compound) leads(o *Object, name []byte, status Status) Status {
	e, s := k.below(o, name)
	if e != nil {
		return status
	}
	return s
}
