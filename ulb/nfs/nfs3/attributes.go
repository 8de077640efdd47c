package nfs3

import (
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// getattr is GETATTR (RFC 1813 §3.3.1).
func (r *request) getattr(args *wire.Getattr3Args, res *wire.Getattr3Res) error {
	err := r.fs().GetAttr(&r.op, r.handle, &r.attr)
	if res.Status = export.StatusOf(err); err == nil {
		res.ResOK.ObjAttributes = fattr(&r.attr)
	}
	return err
}

// setattr is SETATTR (RFC 1813 §3.3.2). If the client sends a guard, the file's ctime must equal it.
func (r *request) setattr(args *wire.Setattr3Args, res *wire.Setattr3Res) error {
	setAttr(&args.NewAttributes, &r.set)
	var guard *vfs.Time
	if args.Guard.Check {
		r.guard = vfsTime(args.Guard.ObjCtime)
		guard = &r.guard
	}
	var ch vfs.Change
	var err error
	rest := r.set
	rest.SetSize = false
	if r.set.SetSize {
		err = r.maySet(state.UseWrite, r.handle, nil, &r.set)
	}
	if err == nil && (!r.set.SetSize || !rest.IsZero()) {
		err = r.maySet(state.UseAttributes, r.handle, nil, &r.set)
	}
	if err == nil {
		ch, err = r.fs().SetAttr(&r.op, r.handle, &r.set, guard)
	}
	res.Status = export.StatusOf(err)
	res.ResOK.ObjWcc = wcc(&ch)
	res.ResFail.ObjWcc = res.ResOK.ObjWcc
	return err
}

// access is ACCESS (RFC 1813 §3.3.4). On a read-only export it grants no right that allows a change.
func (r *request) access(args *wire.Access3Args, res *wire.Access3Res) error {
	want := vfs.Access(args.Access) & (vfs.AccessRead | vfs.AccessLookup | vfs.AccessModify | vfs.AccessExtend | vfs.AccessDelete | vfs.AccessExecute)
	if r.export.ReadOnly {
		want &^= vfs.AccessModify | vfs.AccessExtend | vfs.AccessDelete
	}
	granted, err := r.fs().Access(&r.op, r.handle, want, &r.attr)
	res.Status = export.StatusOf(err)
	res.ResOK = wire.Access3ResOK{ObjAttributes: postOp(&r.attr), Access: uint32(granted)}
	res.ResFail.ObjAttributes = res.ResOK.ObjAttributes
	return err
}

// wireTime converts t to NFSv3's unsigned 32 bits of seconds, which end in 2106. A time
// outside that range becomes the nearest end of the range.
func wireTime(t vfs.Time) wire.NFSTime3 {
	return wire.NFSTime3{Seconds: uint32(min(max(t.Sec, 0), 1<<32-1)), Nanoseconds: t.Nsec}
}

func vfsTime(t wire.NFSTime3) vfs.Time { return vfs.Time{Sec: int64(t.Seconds), Nsec: t.Nanoseconds} }

// fattr converts attributes (RFC 1813 §2.6, fattr3).
func fattr(a *vfs.Attr) wire.Fattr3 {
	return wire.Fattr3{
		Type: wire.FType3(a.Type), Mode: a.Mode & 0o7777, Nlink: a.Nlink, UID: a.UID, GID: a.GID,
		Size: a.Size, Used: a.Used, Rdev: wire.SpecData3{Major: a.Major, Minor: a.Minor},
		FSID: a.FSID, FileID: a.FileID,
		Atime: wireTime(a.Atime), Mtime: wireTime(a.Mtime), Ctime: wireTime(a.Ctime),
	}
}

// postOp converts the attributes of an object for a result. If they are not known (Type is
// zero), the result has none.
func postOp(a *vfs.Attr) wire.PostOpAttr {
	if a.Type == 0 {
		return wire.PostOpAttr{}
	}
	return wire.PostOpAttr{AttributesFollow: true, Attributes: fattr(a)}
}

// wcc converts a change to weak cache consistency data. It includes the attributes before the
// change only if no other change can have come in between (RFC 1813 §2.6, wcc_data).
func wcc(c *vfs.Change) wire.WccData {
	var d wire.WccData
	if c.HasBefore && c.Atomic {
		d.Before = wire.PreOpAttr{AttributesFollow: true, Attributes: wire.WccAttr{
			Size: c.Before.Size, Mtime: wireTime(c.Before.Mtime), Ctime: wireTime(c.Before.Ctime),
		}}
	}
	if c.HasAfter {
		d.After = postOp(&c.After)
	}
	return d
}

// setAttr converts the attributes that a client sets (RFC 1813 §2.6, sattr3).
func setAttr(s *wire.Sattr3, to *vfs.SetAttr) {
	*to = vfs.SetAttr{
		SetMode: s.Mode.SetIt, Mode: s.Mode.Mode & 0o7777,
		SetUID: s.UID.SetIt, UID: s.UID.UID,
		SetGID: s.GID.SetIt, GID: s.GID.GID,
		SetSize: s.Size.SetIt, Size: s.Size.Size,
		AtimeHow: vfs.TimeHow(s.Atime.SetIt), Atime: vfsTime(s.Atime.Atime),
		MtimeHow: vfs.TimeHow(s.Mtime.SetIt), Mtime: vfsTime(s.Mtime.Mtime),
	}
}
