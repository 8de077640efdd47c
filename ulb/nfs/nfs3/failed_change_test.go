package nfs3_test

import (
	"testing"

	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
)

// A failingChange is a file system whose changes fail after they have looked at the object.
type failingChange struct {
	*memfs.FS
	fail bool
}

// looked is the Change that a failingChange returns: the object had 17 bytes before and has 18 now.
var looked = vfs.Change{Before: vfs.Attr{Size: 17}, After: vfs.Attr{Type: vfs.Regular, Size: 18}, HasBefore: true, HasAfter: true, Atomic: true}

func (f *failingChange) SetAttr(op *vfs.Op, h vfs.Handle, s *vfs.SetAttr, guard *vfs.Time) (vfs.Change, error) {
	if f.fail {
		return looked, vfs.ErrDelay
	}
	return f.FS.SetAttr(op, h, s, guard)
}

func (f *failingChange) Write(op *vfs.Op, h vfs.Handle, offset uint64, data [][]byte, stable vfs.Stability) (int, vfs.Stability, vfs.Change, error) {
	if f.fail {
		return 0, stable, looked, vfs.ErrDelay
	}
	return f.FS.Write(op, h, offset, data, stable)
}

func (f *failingChange) Commit(op *vfs.Op, h vfs.Handle, offset uint64, count uint32) (vfs.Change, error) {
	if f.fail {
		return looked, vfs.ErrDelay
	}
	return f.FS.Commit(op, h, offset, count)
}

func (f *failingChange) Create(op *vfs.Op, dir vfs.Handle, name []byte, how *vfs.CreateHow) (vfs.Object, vfs.Change, error) {
	if f.fail {
		return vfs.Object{}, looked, vfs.ErrDelay
	}
	return f.FS.Create(op, dir, name, how)
}

func (f *failingChange) Mkdir(*vfs.Op, vfs.Handle, []byte, *vfs.SetAttr) (vfs.Object, vfs.Change, error) {
	return vfs.Object{}, looked, vfs.ErrDelay
}

func (f *failingChange) Symlink(*vfs.Op, vfs.Handle, []byte, []byte, *vfs.SetAttr) (vfs.Object, vfs.Change, error) {
	return vfs.Object{}, looked, vfs.ErrDelay
}

func (f *failingChange) Mknod(*vfs.Op, vfs.Handle, []byte, vfs.Type, *vfs.SetAttr, uint32, uint32) (vfs.Object, vfs.Change, error) {
	return vfs.Object{}, looked, vfs.ErrDelay
}

func (f *failingChange) Remove(*vfs.Op, vfs.Handle, []byte) (vfs.Change, error) {
	return looked, vfs.ErrDelay
}

func (f *failingChange) Rmdir(*vfs.Op, vfs.Handle, []byte) (vfs.Change, error) {
	return looked, vfs.ErrDelay
}

func (f *failingChange) Rename(*vfs.Op, vfs.Handle, []byte, vfs.Handle, []byte) (from, to vfs.Change, err error) {
	return looked, looked, vfs.ErrDelay
}

func (f *failingChange) Link(*vfs.Op, vfs.Handle, vfs.Handle, []byte, *vfs.Attr) (vfs.Change, error) {
	return looked, vfs.ErrDelay
}

// The failure of each procedure that changes something says what the object, or the directory, was like
// before and after, as far as the file system has looked (RFC 1813 §2.6).
func TestFailedChangesShowTheirObject(t *testing.T) {
	fs := &failingChange{FS: memfs.New(memfs.Options{RootMode: 0o777})}
	s := newSiteOver(t, fs.FS, fs)
	f := s.create(s.root, "f", 0o666)
	fs.fail = true
	is := func(what string, status wire.NFSStat3, all ...wire.WccData) {
		t.Helper()
		if status != wire.NFS3ErrJukebox {
			t.Errorf("%s: %v", what, status)
		}
		for i, w := range all {
			if !w.Before.AttributesFollow || w.Before.Attributes.Size != 17 || !w.After.AttributesFollow || w.After.Attributes.Size != 18 {
				t.Errorf("%s: wcc_data %d is %+v", what, i, w)
			}
		}
	}
	where := s.at(s.root, "new")
	var attr wire.Setattr3Res
	s.call(wire.ProcSetattr, &wire.Setattr3Args{Object: f}, &attr)
	is("SETATTR", attr.Status, attr.ResFail.ObjWcc)
	w := s.write(f, 0, "x", wire.FileSync)
	is("WRITE", w.Status, w.ResFail.FileWcc)
	var commit wire.Commit3Res
	s.call(wire.ProcCommit, &wire.Commit3Args{FileHandle: f}, &commit)
	is("COMMIT", commit.Status, commit.ResFail.FileWcc)
	var create wire.Create3Res
	s.call(wire.ProcCreate, &wire.Create3Args{Where: where, How: wire.CreateHow3{Mode: wire.Unchecked}}, &create)
	is("CREATE", create.Status, create.ResFail.DirWcc)
	var mkdir wire.Mkdir3Res
	s.call(wire.ProcMkdir, &wire.Mkdir3Args{Where: where}, &mkdir)
	is("MKDIR", mkdir.Status, mkdir.ResFail.DirWcc)
	var symlink wire.Symlink3Res
	s.call(wire.ProcSymlink, &wire.Symlink3Args{Where: where, Symlink: wire.SymlinkData3{SymlinkData: eligible("to")}}, &symlink)
	is("SYMLINK", symlink.Status, symlink.ResFail.DirWcc)
	var mknod wire.Mknod3Res
	s.call(wire.ProcMknod, &wire.Mknod3Args{Where: where, What: wire.MknodData3{Type: wire.NF3Fifo}}, &mknod)
	is("MKNOD", mknod.Status, mknod.ResFail.DirWcc)
	var remove wire.Remove3Res
	s.call(wire.ProcRemove, &wire.Remove3Args{Object: s.at(s.root, "f")}, &remove)
	is("REMOVE", remove.Status, remove.ResFail.DirWcc)
	var rmdir wire.Rmdir3Res
	s.call(wire.ProcRmdir, &wire.Rmdir3Args{Object: s.at(s.root, "f")}, &rmdir)
	is("RMDIR", rmdir.Status, rmdir.ResFail.DirWcc)
	var rename wire.Rename3Res
	s.call(wire.ProcRename, &wire.Rename3Args{From: s.at(s.root, "f"), To: where}, &rename)
	is("RENAME", rename.Status, rename.ResFail.FromDirWcc, rename.ResFail.ToDirWcc)
	var link wire.Link3Res
	s.call(wire.ProcLink, &wire.Link3Args{FileHandle: f, Link: where}, &link)
	is("LINK", link.Status, link.ResFail.LinkDirWcc)
}
