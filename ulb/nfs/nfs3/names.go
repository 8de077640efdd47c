package nfs3

import (
	"cmp"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// makeIn checks the name, calls f to make the object, and fills in the result. The results of CREATE,
// MKDIR, SYMLINK and MKNOD have the same form (RFC 1813 §3.3.8 to §3.3.11): CREATE's.
func (r *request) makeIn(where *wire.DirOpArgs3, set *vfs.SetAttr, res *wire.Create3Res, f func() (vfs.Object, vfs.Change, error)) error {
	var obj vfs.Object
	var ch vfs.Change
	err := checkName(where.Name)
	if err == nil {
		err = r.maySet(state.UseCreate, r.handle, where.Name, set)
	}
	if err == nil {
		obj, ch, err = f()
	}
	res.Status = export.StatusOf(err)
	res.ResOK.DirWcc = wcc(&ch)
	res.ResFail.DirWcc = res.ResOK.DirWcc
	if err == nil {
		res.ResOK.Obj = wire.PostOpFH3{HandleFollows: true, Handle: r.seal(obj.Handle)}
		if obj.HasAttr && (obj.Created || r.shows(r.fs(), obj.Handle)) {
			res.ResOK.ObjAttributes = postOp(&obj.Attr)
		}
	}
	return err
}

// create is CREATE (RFC 1813 §3.3.8). An UNCHECKED one sets the size in a step of its own: the file may exist already, so
// the call asks the state manager first (maySet), and until Create has returned, only the file system knows which file it is.
func (r *request) create(args *wire.Create3Args, res *wire.Create3Res) error {
	r.how = vfs.CreateHow{Mode: vfs.CreateMode(args.How.Mode), Verifier: args.How.Verf}
	setAttr(&args.How.ObjAttributes, &r.how.Attr)
	r.set = vfs.SetAttr{}
	if a := &r.how.Attr; r.how.Mode == vfs.Unchecked && a.SetSize {
		r.set.SetSize, r.set.Size = true, a.Size
		a.SetSize, a.Size = false, 0
	}
	return r.makeIn(&args.Where, &r.how.Attr, res, func() (vfs.Object, vfs.Change, error) {
		o, ch, err := r.fs().Create(&r.op, r.handle, args.Where.Name, &r.how)
		if err == nil && r.set.SetSize && !(o.Created && r.set.Size == 0) {
			if o.Created {
				r.setAgain()
			}
			err = r.setSize(&o)
		}
		return o, ch, err
	})
}

// setAgain adds to the size those attributes of a new file that a change of its size changes too: the times, and the set-ID
// bits of the mode.
func (r *request) setAgain() {
	a, s := &r.how.Attr, &r.set
	s.AtimeHow, s.MtimeHow, s.Atime, s.Mtime = a.AtimeHow, a.MtimeHow, a.Atime, a.Mtime
	const setIDs = 0o6000
	if a.SetMode && a.Mode&setIDs != 0 {
		s.SetMode, s.Mode = true, a.Mode
	}
}

// setSize sets the size of a file that CREATE has made or found.
func (r *request) setSize(o *vfs.Object) error {
	if err := r.maySet(state.UseWrite, o.Handle, nil, &r.set); err != nil {
		return err
	}
	ch, err := r.fs().SetAttr(&r.op, o.Handle, &r.set, nil)
	if ch.HasAfter {
		o.Attr, o.HasAttr = ch.After, true
	}
	return err
}

// mkdir is MKDIR (RFC 1813 §3.3.9).
func (r *request) mkdir(args *wire.Mkdir3Args, res *wire.Create3Res) error {
	setAttr(&args.Attributes, &r.set)
	return r.makeIn(&args.Where, &r.set, res, func() (vfs.Object, vfs.Change, error) {
		return r.fs().Mkdir(&r.op, r.handle, args.Where.Name, &r.set)
	})
}

// symlink is SYMLINK (RFC 1813 §3.3.10).
func (r *request) symlink(args *wire.Symlink3Args, res *wire.Create3Res) error {
	setAttr(&args.Symlink.SymlinkAttributes, &r.set)
	return r.makeIn(&args.Where, &r.set, res, func() (vfs.Object, vfs.Change, error) {
		return r.fs().Symlink(&r.op, r.handle, args.Where.Name, args.Symlink.SymlinkData.Data, &r.set)
	})
}

// mknod is MKNOD (RFC 1813 §3.3.11). Types that have procedures of their own get NFS3ERR_BADTYPE.
func (r *request) mknod(args *wire.Mknod3Args, res *wire.Create3Res) error {
	attr := &args.What.PipeAttributes
	switch args.What.Type {
	case wire.NF3Chr, wire.NF3Blk:
		attr = &args.What.Device.DevAttributes
	case wire.NF3Sock, wire.NF3Fifo:
	default:
		res.Status = wire.NFS3ErrBadType
		return nil
	}
	setAttr(attr, &r.set)
	return r.makeIn(&args.Where, &r.set, res, func() (vfs.Object, vfs.Change, error) {
		t, spec := vfs.Type(args.What.Type), args.What.Device.Spec
		return r.fs().Mknod(&r.op, r.handle, args.Where.Name, t, &r.set, spec.Major, spec.Minor)
	})
}

// remove is REMOVE (RFC 1813 §3.3.12).
func (r *request) remove(args *wire.Remove3Args, res *wire.Remove3Res) error {
	return r.unlink(args, res, vfs.FileSystem.Remove)
}

// rmdir is RMDIR (RFC 1813 §3.3.13), whose arguments and results are REMOVE's.
func (r *request) rmdir(args *wire.Remove3Args, res *wire.Remove3Res) error {
	return r.unlink(args, res, vfs.FileSystem.Rmdir)
}

func (r *request) unlink(
	args *wire.Remove3Args, res *wire.Remove3Res, f func(vfs.FileSystem, *vfs.Op, vfs.Handle, []byte) (vfs.Change, error),
) error {
	var ch vfs.Change
	err := checkName(args.Object.Name)
	if err == nil {
		err = r.may(state.UseRemove, r.handle, args.Object.Name)
	}
	if err == nil {
		ch, err = f(r.fs(), &r.op, r.handle, args.Object.Name)
	}
	res.Status = export.StatusOf(err)
	res.ResOK.DirWcc = wcc(&ch)
	res.ResFail.DirWcc = res.ResOK.DirWcc
	return err
}

// openAlso returns the file that the call's second file handle names. If the file is in another
// export, the error is EXDEV.
func (r *request) openAlso(fh wire.FileHandle3) (vfs.Handle, error) {
	o, err := r.program.find(fh.Data)
	switch {
	case err != nil:
		return vfs.Handle{}, err
	case o.Export.ID != r.export.ID: // by ID, because one of them may have been replaced meanwhile
		return vfs.Handle{}, syscall.EXDEV
	}
	return o.Handle, nil
}

// rename is RENAME (RFC 1813 §3.3.14), within one export.
func (r *request) rename(args *wire.Rename3Args, res *wire.Rename3Res) error {
	var from, toCh vfs.Change
	to, err := r.openAlso(args.To.Dir)
	if err == nil {
		err = cmp.Or(checkName(args.From.Name), checkName(args.To.Name))
	}
	if err == nil {
		err = r.may(state.UseRemove, r.handle, args.From.Name)
	}
	if err == nil {
		err = r.may(state.UseRemove, to, args.To.Name)
	}
	if err == nil {
		err = r.may(state.UseCreate, to, args.To.Name)
	}
	if err == nil {
		from, toCh, err = r.fs().Rename(&r.op, r.handle, args.From.Name, to, args.To.Name)
	}
	res.Status = export.StatusOf(err)
	res.ResOK = wire.Rename3ResOK{FromDirWcc: wcc(&from), ToDirWcc: wcc(&toCh)}
	res.ResFail = wire.Rename3ResFail{FromDirWcc: res.ResOK.FromDirWcc, ToDirWcc: res.ResOK.ToDirWcc}
	return err
}

// link is LINK (RFC 1813 §3.3.15), within one export.
func (r *request) link(args *wire.Link3Args, res *wire.Link3Res) error {
	var ch vfs.Change
	dir, err := r.openAlso(args.Link.Dir)
	if err == nil {
		err = checkName(args.Link.Name)
	}
	if err == nil {
		err = r.may(state.UseLink, r.handle, nil)
	}
	if err == nil {
		err = r.may(state.UseCreate, dir, args.Link.Name)
	}
	if err == nil {
		ch, err = r.fs().Link(&r.op, r.handle, dir, args.Link.Name, &r.attr)
	}
	res.Status = export.StatusOf(err)
	res.ResOK = wire.Link3ResOK{FileAttributes: postOp(&r.attr), LinkDirWcc: wcc(&ch)}
	res.ResFail = wire.Link3ResFail{FileAttributes: res.ResOK.FileAttributes, LinkDirWcc: res.ResOK.LinkDirWcc}
	return err
}
