package vfstest

import (
	"slices"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// hesitant is the file system that Hesitant returns.
type hesitant struct {
	vfs.FileSystem
	only []string // names of the methods that return vfs.ErrWouldBlock; if empty, all methods do
}

// Hesitant wraps fs to test callers of a file system. If Op.Try is set, each method returns
// vfs.ErrWouldBlock and does nothing, so the caller has to undo or keep its preparations and call
// again. Otherwise each method calls that of fs. If names of methods are given ("GetAttr", "Open",
// "File.Read"), only these methods do so, and all others call those of fs even if Op.Try is set.
// vfs.As still finds the optional interfaces of fs. If fs has all of vfs.Opener, vfs.Sparse,
// vfs.Copier and vfs.Xattrs, their methods are wrapped as well.
func Hesitant(fs vfs.FileSystem, only ...string) vfs.FileSystem {
	h := hesitant{FileSystem: fs, only: only}
	if all, ok := fs.(further); ok {
		return &hesitantFurther{h, all}
	}
	return &h
}

// Unwrap implements vfs.Wrapper.
func (f *hesitant) Unwrap() vfs.FileSystem { return f.FileSystem }

func (f *hesitant) hesitates(op *vfs.Op, method string) bool {
	return op.Try && (len(f.only) == 0 || slices.Contains(f.only, method))
}

func (f *hesitant) Info(op *vfs.Op, h vfs.Handle) (i vfs.Info, err error) {
	if f.hesitates(op, "Info") {
		return i, vfs.ErrWouldBlock
	}
	return f.FileSystem.Info(op, h)
}

func (f *hesitant) Usage(op *vfs.Op, h vfs.Handle) (u vfs.Usage, err error) {
	if f.hesitates(op, "Usage") {
		return u, vfs.ErrWouldBlock
	}
	return f.FileSystem.Usage(op, h)
}

func (f *hesitant) GetAttr(op *vfs.Op, h vfs.Handle, a *vfs.Attr) (err error) {
	if f.hesitates(op, "GetAttr") {
		return vfs.ErrWouldBlock
	}
	return f.FileSystem.GetAttr(op, h, a)
}

func (f *hesitant) SetAttr(op *vfs.Op, h vfs.Handle, s *vfs.SetAttr, guard *vfs.Time) (ch vfs.Change, err error) {
	if f.hesitates(op, "SetAttr") {
		return ch, vfs.ErrWouldBlock
	}
	return f.FileSystem.SetAttr(op, h, s, guard)
}

func (f *hesitant) Access(op *vfs.Op, h vfs.Handle, want vfs.Access, a *vfs.Attr) (got vfs.Access, err error) {
	if f.hesitates(op, "Access") {
		return got, vfs.ErrWouldBlock
	}
	return f.FileSystem.Access(op, h, want, a)
}

func (f *hesitant) Lookup(op *vfs.Op, dir vfs.Handle, name []byte, a *vfs.Attr) (o vfs.Object, err error) {
	if f.hesitates(op, "Lookup") {
		return o, vfs.ErrWouldBlock
	}
	return f.FileSystem.Lookup(op, dir, name, a)
}

func (f *hesitant) ReadLink(op *vfs.Op, h vfs.Handle, buf []byte, a *vfs.Attr) (n int, err error) {
	if f.hesitates(op, "ReadLink") {
		return n, vfs.ErrWouldBlock
	}
	return f.FileSystem.ReadLink(op, h, buf, a)
}

func (f *hesitant) Read(op *vfs.Op, h vfs.Handle, off uint64, buf []byte, a *vfs.Attr) (n int, eof bool, err error) {
	if f.hesitates(op, "Read") {
		return n, eof, vfs.ErrWouldBlock
	}
	return f.FileSystem.Read(op, h, off, buf, a)
}

func (f *hesitant) Write(op *vfs.Op, h vfs.Handle, off uint64, data [][]byte, s vfs.Stability) (n int, done vfs.Stability, ch vfs.Change, err error) {
	if f.hesitates(op, "Write") {
		return n, done, ch, vfs.ErrWouldBlock
	}
	return f.FileSystem.Write(op, h, off, data, s)
}

func (f *hesitant) Commit(op *vfs.Op, h vfs.Handle, off uint64, count uint32) (ch vfs.Change, err error) {
	if f.hesitates(op, "Commit") {
		return ch, vfs.ErrWouldBlock
	}
	return f.FileSystem.Commit(op, h, off, count)
}

func (f *hesitant) Create(op *vfs.Op, dir vfs.Handle, name []byte, how *vfs.CreateHow) (o vfs.Object, ch vfs.Change, err error) {
	if f.hesitates(op, "Create") {
		return o, ch, vfs.ErrWouldBlock
	}
	return f.FileSystem.Create(op, dir, name, how)
}

func (f *hesitant) Mkdir(op *vfs.Op, dir vfs.Handle, name []byte, s *vfs.SetAttr) (o vfs.Object, ch vfs.Change, err error) {
	if f.hesitates(op, "Mkdir") {
		return o, ch, vfs.ErrWouldBlock
	}
	return f.FileSystem.Mkdir(op, dir, name, s)
}

func (f *hesitant) Symlink(op *vfs.Op, dir vfs.Handle, name, text []byte, s *vfs.SetAttr) (o vfs.Object, ch vfs.Change, err error) {
	if f.hesitates(op, "Symlink") {
		return o, ch, vfs.ErrWouldBlock
	}
	return f.FileSystem.Symlink(op, dir, name, text, s)
}

func (f *hesitant) Mknod(op *vfs.Op, dir vfs.Handle, name []byte, t vfs.Type, s *vfs.SetAttr, major, minor uint32) (o vfs.Object, ch vfs.Change, err error) {
	if f.hesitates(op, "Mknod") {
		return o, ch, vfs.ErrWouldBlock
	}
	return f.FileSystem.Mknod(op, dir, name, t, s, major, minor)
}

func (f *hesitant) Remove(op *vfs.Op, dir vfs.Handle, name []byte) (ch vfs.Change, err error) {
	if f.hesitates(op, "Remove") {
		return ch, vfs.ErrWouldBlock
	}
	return f.FileSystem.Remove(op, dir, name)
}

func (f *hesitant) Rmdir(op *vfs.Op, dir vfs.Handle, name []byte) (ch vfs.Change, err error) {
	if f.hesitates(op, "Rmdir") {
		return ch, vfs.ErrWouldBlock
	}
	return f.FileSystem.Rmdir(op, dir, name)
}

func (f *hesitant) Rename(op *vfs.Op, from vfs.Handle, a []byte, to vfs.Handle, b []byte) (fc, tc vfs.Change, err error) {
	if f.hesitates(op, "Rename") {
		return fc, tc, vfs.ErrWouldBlock
	}
	return f.FileSystem.Rename(op, from, a, to, b)
}

func (f *hesitant) Link(op *vfs.Op, h, dir vfs.Handle, name []byte, a *vfs.Attr) (ch vfs.Change, err error) {
	if f.hesitates(op, "Link") {
		return ch, vfs.ErrWouldBlock
	}
	return f.FileSystem.Link(op, h, dir, name, a)
}

func (f *hesitant) ReadDir(op *vfs.Op, dir vfs.Handle, cookie uint64, plus bool, a *vfs.Attr, emit func(*vfs.DirEntry) bool) (eof bool, err error) {
	if f.hesitates(op, "ReadDir") {
		return eof, vfs.ErrWouldBlock
	}
	return f.FileSystem.ReadDir(op, dir, cookie, plus, a, emit)
}
