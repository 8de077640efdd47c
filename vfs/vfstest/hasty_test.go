package vfstest_test

import (
	"github.com/nfsrdmad/nfsrdmad/vfs"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
)

// hasty is a file system with a faulty method: if Op.Try is set, the method does its work and then
// returns ErrWouldBlock.
type hasty struct {
	*memfs.FS
	in string
}

// late returns the result of the given method: ErrWouldBlock for the faulty one with Op.Try, err
// otherwise.
func (f hasty) late(op *vfs.Op, method string, err error) error {
	if op.Try && method == f.in {
		return vfs.ErrWouldBlock
	}
	return err
}

func (f hasty) SetAttr(op *vfs.Op, h vfs.Handle, s *vfs.SetAttr, guard *vfs.Time) (ch vfs.Change, err error) {
	ch, err = f.FS.SetAttr(op, h, s, guard)
	return ch, f.late(op, "SetAttr", err)
}

func (f hasty) Write(op *vfs.Op, h vfs.Handle, off uint64, data [][]byte, s vfs.Stability) (n int, done vfs.Stability, ch vfs.Change, err error) {
	n, done, ch, err = f.FS.Write(op, h, off, data, s)
	return n, done, ch, f.late(op, "Write", err)
}

func (f hasty) Create(op *vfs.Op, dir vfs.Handle, name []byte, how *vfs.CreateHow) (o vfs.Object, ch vfs.Change, err error) {
	o, ch, err = f.FS.Create(op, dir, name, how)
	return o, ch, f.late(op, "Create", err)
}

func (f hasty) Mkdir(op *vfs.Op, dir vfs.Handle, name []byte, s *vfs.SetAttr) (o vfs.Object, ch vfs.Change, err error) {
	o, ch, err = f.FS.Mkdir(op, dir, name, s)
	return o, ch, f.late(op, "Mkdir", err)
}

func (f hasty) Symlink(op *vfs.Op, dir vfs.Handle, name, text []byte, s *vfs.SetAttr) (o vfs.Object, ch vfs.Change, err error) {
	o, ch, err = f.FS.Symlink(op, dir, name, text, s)
	return o, ch, f.late(op, "Symlink", err)
}

func (f hasty) Mknod(op *vfs.Op, dir vfs.Handle, name []byte, t vfs.Type, s *vfs.SetAttr, major, minor uint32) (o vfs.Object, ch vfs.Change, err error) {
	o, ch, err = f.FS.Mknod(op, dir, name, t, s, major, minor)
	return o, ch, f.late(op, "Mknod", err)
}

func (f hasty) Remove(op *vfs.Op, dir vfs.Handle, name []byte) (ch vfs.Change, err error) {
	ch, err = f.FS.Remove(op, dir, name)
	return ch, f.late(op, "Remove", err)
}

func (f hasty) Rmdir(op *vfs.Op, dir vfs.Handle, name []byte) (ch vfs.Change, err error) {
	ch, err = f.FS.Rmdir(op, dir, name)
	return ch, f.late(op, "Rmdir", err)
}

func (f hasty) Rename(op *vfs.Op, from vfs.Handle, a []byte, to vfs.Handle, b []byte) (fc, tc vfs.Change, err error) {
	fc, tc, err = f.FS.Rename(op, from, a, to, b)
	return fc, tc, f.late(op, "Rename", err)
}

func (f hasty) Link(op *vfs.Op, h, dir vfs.Handle, name []byte, a *vfs.Attr) (ch vfs.Change, err error) {
	ch, err = f.FS.Link(op, h, dir, name, a)
	return ch, f.late(op, "Link", err)
}

func (f hasty) ReadDir(op *vfs.Op, dir vfs.Handle, cookie uint64, plus bool, a *vfs.Attr, emit func(*vfs.DirEntry) bool) (eof bool, err error) {
	eof, err = f.FS.ReadDir(op, dir, cookie, plus, a, emit)
	return eof, f.late(op, "ReadDir", err)
}

// cutting has the fault of hasty in a Create that truncates an existing file.
type cutting struct{ *memfs.FS }

func (f cutting) Create(op *vfs.Op, dir vfs.Handle, name []byte, how *vfs.CreateHow) (o vfs.Object, ch vfs.Change, err error) {
	var a vfs.Attr
	_, missing := f.FS.Lookup(op, dir, name, &a)
	o, ch, err = f.FS.Create(op, dir, name, how)
	if op.Try && missing == nil && how.Attr.SetSize {
		err = vfs.ErrWouldBlock
	}
	return o, ch, err
}
