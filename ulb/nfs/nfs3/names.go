package nfs3

import (
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// made writes the result of CREATE, MKDIR, SYMLINK or MKNOD. Their results have the same
// form (RFC 1813 §3.3.8 to §3.3.11) and are encoded here as CREATE's.
func (r *request) made(s wire.NFSStat3, obj *vfs.Object, ch *vfs.Change) rpc.Outcome {
	res := wire.Create3Res{Status: s}
	if s == wire.NFS3OK {
		res.ResOK = wire.Create3ResOK{
			Obj:    wire.PostOpFH3{HandleFollows: true, Handle: r.seal(obj.Handle)},
			DirWcc: wcc(ch),
		}
		if obj.HasAttr {
			res.ResOK.ObjAttributes = postOp(&obj.Attr)
		}
	} else {
		res.ResFail.DirWcc = wcc(ch)
	}
	res.Encode(r.w)
	return rpc.Done
}

// makeIn checks the name, calls f to make the object, and writes the result.
func (r *request) makeIn(where *wire.DirOpArgs3, f func() (vfs.Object, vfs.Change, error)) rpc.Outcome {
	s := checkName(where.Name)
	var obj vfs.Object
	var ch vfs.Change
	if s == wire.NFS3OK {
		var err error
		if obj, ch, err = f(); blocked(err) {
			return r.block()
		}
		s = export.StatusOf(err)
	}
	return r.made(s, &obj, &ch)
}

var createMode = [...]vfs.CreateMode{
	wire.Unchecked: vfs.Unchecked,
	wire.Guarded:   vfs.Guarded,
	wire.Exclusive: vfs.Exclusive,
}

// create is CREATE (RFC 1813 §3.3.8).
func (r *request) create() rpc.Outcome {
	var args wire.Create3Args
	args.Decode(r.args)
	if r.args.Finish() != nil {
		return rpc.GarbageArgs
	}
	return r.makeIn(&args.Where, func() (vfs.Object, vfs.Change, error) {
		r.how = vfs.CreateHow{Mode: createMode[args.How.Mode], Verifier: args.How.Verf}
		setAttr(&args.How.ObjAttributes, &r.how.Attr)
		if r.how.Mode == vfs.Unchecked && r.how.Attr.SetSize {
			if err := r.may(state.UseWrite, r.handle, args.Where.Name); err != nil {
				return vfs.Object{}, vfs.Change{}, err
			}
		}
		return r.fs().Create(&r.op, r.handle, args.Where.Name, &r.how)
	})
}

// mkdir is MKDIR (RFC 1813 §3.3.9).
func (r *request) mkdir() rpc.Outcome {
	var args wire.Mkdir3Args
	args.Decode(r.args)
	if r.args.Finish() != nil {
		return rpc.GarbageArgs
	}
	return r.makeIn(&args.Where, func() (vfs.Object, vfs.Change, error) {
		setAttr(&args.Attributes, &r.set)
		return r.fs().Mkdir(&r.op, r.handle, args.Where.Name, &r.set)
	})
}

// symlink is SYMLINK (RFC 1813 §3.3.10).
func (r *request) symlink() rpc.Outcome {
	var args wire.Symlink3Args
	args.Decode(r.args)
	if r.args.Finish() != nil {
		return rpc.GarbageArgs
	}
	return r.makeIn(&args.Where, func() (vfs.Object, vfs.Change, error) {
		setAttr(&args.Symlink.SymlinkAttributes, &r.set)
		return r.fs().Symlink(&r.op, r.handle, args.Where.Name, args.Symlink.SymlinkData.Data, &r.set)
	})
}

// mknod is MKNOD (RFC 1813 §3.3.11). Types that have procedures of their own get
// NFS3ERR_BADTYPE.
func (r *request) mknod() rpc.Outcome {
	var args wire.Mknod3Args
	args.Decode(r.args)
	if r.args.Finish() != nil {
		return rpc.GarbageArgs
	}
	var t vfs.Type
	attr := &args.What.PipeAttributes
	switch args.What.Type {
	case wire.NF3Chr:
		t, attr = vfs.CharDevice, &args.What.Device.DevAttributes
	case wire.NF3Blk:
		t, attr = vfs.BlockDevice, &args.What.Device.DevAttributes
	case wire.NF3Sock:
		t = vfs.Socket
	case wire.NF3Fifo:
		t = vfs.FIFO
	default:
		return r.made(wire.NFS3ErrBadType, nil, &vfs.Change{})
	}
	return r.makeIn(&args.Where, func() (vfs.Object, vfs.Change, error) {
		setAttr(attr, &r.set)
		spec := args.What.Device.Spec
		return r.fs().Mknod(&r.op, r.handle, args.Where.Name, t, &r.set, spec.Major, spec.Minor)
	})
}

// remove is REMOVE (RFC 1813 §3.3.12).
func (r *request) remove() rpc.Outcome { return r.unlink(vfs.FileSystem.Remove) }

// rmdir is RMDIR (RFC 1813 §3.3.13), whose arguments and results are REMOVE's.
func (r *request) rmdir() rpc.Outcome { return r.unlink(vfs.FileSystem.Rmdir) }

func (r *request) unlink(f func(vfs.FileSystem, *vfs.Op, vfs.Handle, []byte) (vfs.Change, error)) rpc.Outcome {
	var args wire.Remove3Args
	args.Decode(r.args)
	if r.args.Finish() != nil {
		return rpc.GarbageArgs
	}
	var res wire.Remove3Res
	if res.Status = checkName(args.Object.Name); res.Status == wire.NFS3OK {
		var ch vfs.Change
		err := r.may(state.UseRemove, r.handle, args.Object.Name)
		if err == nil {
			ch, err = f(r.fs(), &r.op, r.handle, args.Object.Name)
		}
		if blocked(err) {
			return r.block()
		}
		res.Status = export.StatusOf(err)
		res.ResOK.DirWcc = wcc(&ch)
		res.ResFail.DirWcc = res.ResOK.DirWcc
	}
	res.Encode(r.w)
	return rpc.Done
}

// rename is RENAME (RFC 1813 §3.3.14), within one export.
func (r *request) rename() rpc.Outcome {
	var args wire.Rename3Args
	args.Decode(r.args)
	if r.args.Finish() != nil {
		return rpc.GarbageArgs
	}
	var res wire.Rename3Res
	var to vfs.Handle
	to, res.Status = r.openAlso(args.To.Dir)
	if res.Status == wire.NFS3OK {
		res.Status = checkName(args.From.Name)
	}
	if res.Status == wire.NFS3OK {
		res.Status = checkName(args.To.Name)
	}
	if res.Status == wire.NFS3OK {
		var from, toCh vfs.Change
		err := r.may(state.UseRemove, r.handle, args.From.Name)
		if err == nil {
			err = r.may(state.UseRemove, to, args.To.Name)
		}
		if err == nil {
			from, toCh, err = r.fs().Rename(&r.op, r.handle, args.From.Name, to, args.To.Name)
		}
		if blocked(err) {
			return r.block()
		}
		res.Status = export.StatusOf(err)
		res.ResOK = wire.Rename3ResOK{FromDirWcc: wcc(&from), ToDirWcc: wcc(&toCh)}
		res.ResFail = wire.Rename3ResFail{FromDirWcc: res.ResOK.FromDirWcc, ToDirWcc: res.ResOK.ToDirWcc}
	}
	res.Encode(r.w)
	return rpc.Done
}

// link is LINK (RFC 1813 §3.3.15), within one export.
func (r *request) link() rpc.Outcome {
	var args wire.Link3Args
	args.Decode(r.args)
	if r.args.Finish() != nil {
		return rpc.GarbageArgs
	}
	var res wire.Link3Res
	var dir vfs.Handle
	dir, res.Status = r.openAlso(args.Link.Dir)
	if res.Status == wire.NFS3OK {
		res.Status = checkName(args.Link.Name)
	}
	if res.Status == wire.NFS3OK {
		r.attr = vfs.Attr{}
		var ch vfs.Change
		err := r.may(state.UseLink, r.handle, nil)
		if err == nil {
			ch, err = r.fs().Link(&r.op, r.handle, dir, args.Link.Name, &r.attr)
		}
		if blocked(err) {
			return r.block()
		}
		res.Status = export.StatusOf(err)
		res.ResOK = wire.Link3ResOK{FileAttributes: postOp(&r.attr), LinkDirWcc: wcc(&ch)}
		res.ResFail = wire.Link3ResFail{FileAttributes: res.ResOK.FileAttributes, LinkDirWcc: res.ResOK.LinkDirWcc}
	}
	res.Encode(r.w)
	return rpc.Done
}
