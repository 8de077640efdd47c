package vfstest

import (
	"slices"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// hesitant is the file system that Hesitant and Before return.
type hesitant struct {
	vfs.FileSystem
	before func(op *vfs.Op, method string) error
}

// Hesitant wraps fs to test callers of a file system. If Op.Try is set, each method returns
// vfs.ErrWouldBlock and does nothing, so the caller has to undo or keep its preparations and call
// again. Otherwise each method calls that of fs. If names of methods are given ("GetAttr", "Open",
// "File.Read"), only these methods do so, and all others call those of fs even if Op.Try is set.
// vfs.As still finds the optional interfaces of fs. If fs has all of vfs.Opener, vfs.Sparse,
// vfs.Copier and vfs.Xattrs, their methods are wrapped as well.
func Hesitant(fs vfs.FileSystem, only ...string) vfs.FileSystem {
	return Before(fs, func(op *vfs.Op, method string) error {
		if op.Try && (len(only) == 0 || slices.Contains(only, method)) {
			return vfs.ErrWouldBlock
		}
		return nil
	})
}

// Before wraps fs to test what a caller does if something happens between two of its calls, or if one
// of them fails. Each method that takes an Op first calls before with the method's name ("GetAttr", "Open",
// "File.Read"), on the caller's goroutine. If before returns an error, the method returns it and does nothing
// else. Before wraps the same interfaces as Hesitant.
func Before(fs vfs.FileSystem, before func(op *vfs.Op, method string) error) vfs.FileSystem {
	h := hesitant{FileSystem: fs, before: before}
	if all, ok := fs.(further); ok {
		return &hesitantFurther{h, all}
	}
	return &h
}

// Unwrap implements vfs.Wrapper.
func (f *hesitant) Unwrap() vfs.FileSystem { return f.FileSystem }

func (f *hesitant) Info(op *vfs.Op, h vfs.Handle) (i vfs.Info, err error) {
	if err := f.before(op, "Info"); err != nil {
		return i, err
	}
	return f.FileSystem.Info(op, h)
}

func (f *hesitant) Usage(op *vfs.Op, h vfs.Handle) (u vfs.Usage, err error) {
	if err := f.before(op, "Usage"); err != nil {
		return u, err
	}
	return f.FileSystem.Usage(op, h)
}

func (f *hesitant) GetAttr(op *vfs.Op, h vfs.Handle, a *vfs.Attr) (err error) {
	if err := f.before(op, "GetAttr"); err != nil {
		return err
	}
	return f.FileSystem.GetAttr(op, h, a)
}

func (f *hesitant) SetAttr(op *vfs.Op, h vfs.Handle, s *vfs.SetAttr, guard *vfs.Time) (ch vfs.Change, err error) {
	if err := f.before(op, "SetAttr"); err != nil {
		return ch, err
	}
	return f.FileSystem.SetAttr(op, h, s, guard)
}

func (f *hesitant) Access(op *vfs.Op, h vfs.Handle, want vfs.Access, a *vfs.Attr) (got vfs.Access, err error) {
	if err := f.before(op, "Access"); err != nil {
		return got, err
	}
	return f.FileSystem.Access(op, h, want, a)
}

func (f *hesitant) Lookup(op *vfs.Op, dir vfs.Handle, name []byte, a *vfs.Attr) (o vfs.Object, err error) {
	if err := f.before(op, "Lookup"); err != nil {
		return o, err
	}
	return f.FileSystem.Lookup(op, dir, name, a)
}

func (f *hesitant) ReadLink(op *vfs.Op, h vfs.Handle, buf []byte, a *vfs.Attr) (n int, err error) {
	if err := f.before(op, "ReadLink"); err != nil {
		return n, err
	}
	return f.FileSystem.ReadLink(op, h, buf, a)
}

func (f *hesitant) Read(op *vfs.Op, h vfs.Handle, off uint64, buf []byte, a *vfs.Attr) (n int, eof bool, err error) {
	if err := f.before(op, "Read"); err != nil {
		return n, eof, err
	}
	return f.FileSystem.Read(op, h, off, buf, a)
}

func (f *hesitant) Write(op *vfs.Op, h vfs.Handle, off uint64, data [][]byte, s vfs.Stability) (n int, done vfs.Stability, ch vfs.Change, err error) {
	if err := f.before(op, "Write"); err != nil {
		return n, done, ch, err
	}
	return f.FileSystem.Write(op, h, off, data, s)
}

func (f *hesitant) Commit(op *vfs.Op, h vfs.Handle, off uint64, count uint32) (ch vfs.Change, err error) {
	if err := f.before(op, "Commit"); err != nil {
		return ch, err
	}
	return f.FileSystem.Commit(op, h, off, count)
}

func (f *hesitant) Create(op *vfs.Op, dir vfs.Handle, name []byte, how *vfs.CreateHow) (o vfs.Object, ch vfs.Change, err error) {
	if err := f.before(op, "Create"); err != nil {
		return o, ch, err
	}
	return f.FileSystem.Create(op, dir, name, how)
}

func (f *hesitant) Mkdir(op *vfs.Op, dir vfs.Handle, name []byte, s *vfs.SetAttr) (o vfs.Object, ch vfs.Change, err error) {
	if err := f.before(op, "Mkdir"); err != nil {
		return o, ch, err
	}
	return f.FileSystem.Mkdir(op, dir, name, s)
}

func (f *hesitant) Symlink(op *vfs.Op, dir vfs.Handle, name, text []byte, s *vfs.SetAttr) (o vfs.Object, ch vfs.Change, err error) {
	if err := f.before(op, "Symlink"); err != nil {
		return o, ch, err
	}
	return f.FileSystem.Symlink(op, dir, name, text, s)
}

func (f *hesitant) Mknod(op *vfs.Op, dir vfs.Handle, name []byte, t vfs.Type, s *vfs.SetAttr, major, minor uint32) (o vfs.Object, ch vfs.Change, err error) {
	if err := f.before(op, "Mknod"); err != nil {
		return o, ch, err
	}
	return f.FileSystem.Mknod(op, dir, name, t, s, major, minor)
}

func (f *hesitant) Remove(op *vfs.Op, dir vfs.Handle, name []byte) (ch vfs.Change, err error) {
	if err := f.before(op, "Remove"); err != nil {
		return ch, err
	}
	return f.FileSystem.Remove(op, dir, name)
}

func (f *hesitant) Rmdir(op *vfs.Op, dir vfs.Handle, name []byte) (ch vfs.Change, err error) {
	if err := f.before(op, "Rmdir"); err != nil {
		return ch, err
	}
	return f.FileSystem.Rmdir(op, dir, name)
}

func (f *hesitant) Rename(op *vfs.Op, from vfs.Handle, a []byte, to vfs.Handle, b []byte) (fc, tc vfs.Change, err error) {
	if err := f.before(op, "Rename"); err != nil {
		return fc, tc, err
	}
	return f.FileSystem.Rename(op, from, a, to, b)
}

func (f *hesitant) Link(op *vfs.Op, h, dir vfs.Handle, name []byte, a *vfs.Attr) (ch vfs.Change, err error) {
	if err := f.before(op, "Link"); err != nil {
		return ch, err
	}
	return f.FileSystem.Link(op, h, dir, name, a)
}

func (f *hesitant) ReadDir(op *vfs.Op, dir vfs.Handle, cookie uint64, plus bool, a *vfs.Attr, emit func(*vfs.DirEntry) bool) (eof bool, err error) {
	if err := f.before(op, "ReadDir"); err != nil {
		return eof, err
	}
	return f.FileSystem.ReadDir(op, dir, cookie, plus, a, emit)
}
