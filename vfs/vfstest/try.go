package vfstest

import (
	"errors"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// trying is a file system that makes every call first with Op.Try, and again without it if the
// first call returns ErrWouldBlock.
type trying struct {
	vfs.FileSystem
	t *testing.T
	// If check is set, attempt verifies that a call that returned ErrWouldBlock changed nothing.
	// That works only while no other goroutine uses the file system.
	check bool
}

// attempt calls the function do with Op.Try. If do returns ErrWouldBlock, attempt calls it once
// more without Op.Try. hs are the handles of the files that the call may change.
func (f *trying) attempt(op *vfs.Op, do func(op *vfs.Op) error, hs ...vfs.Handle) {
	before := f.look(op, hs)
	try := *op
	try.Try = true
	if err := do(&try); !errors.Is(err, vfs.ErrWouldBlock) {
		return
	}
	after := f.look(op, hs)
	for i := range before {
		if before[i] != after[i] {
			f.t.Errorf("what answered ErrWouldBlock changed %v: %+v to %+v", hs[i], before[i], after[i])
		}
	}
	if err := do(op); errors.Is(err, vfs.ErrWouldBlock) {
		f.t.Errorf("ErrWouldBlock without Try")
	}
}

func (f *trying) look(op *vfs.Op, hs []vfs.Handle) []vfs.Attr {
	if !f.check {
		return nil
	}
	seen := make([]vfs.Attr, len(hs))
	for i, h := range hs {
		f.FileSystem.GetAttr(op, h, &seen[i])
		seen[i].Atime, seen[i].Used = vfs.Time{}, 0 // the file system may allocate storage later
	}
	return seen
}

func (f *trying) Info(op *vfs.Op, h vfs.Handle) (i vfs.Info, err error) {
	f.attempt(op, func(op *vfs.Op) error { i, err = f.FileSystem.Info(op, h); return err })
	return
}

func (f *trying) Usage(op *vfs.Op, h vfs.Handle) (u vfs.Usage, err error) {
	f.attempt(op, func(op *vfs.Op) error { u, err = f.FileSystem.Usage(op, h); return err })
	return
}

func (f *trying) GetAttr(op *vfs.Op, h vfs.Handle, a *vfs.Attr) (err error) {
	f.attempt(op, func(op *vfs.Op) error { err = f.FileSystem.GetAttr(op, h, a); return err })
	return
}

func (f *trying) SetAttr(op *vfs.Op, h vfs.Handle, s *vfs.SetAttr, guard *vfs.Time) (ch vfs.Change, err error) {
	f.attempt(op, func(op *vfs.Op) error { ch, err = f.FileSystem.SetAttr(op, h, s, guard); return err }, h)
	return
}

func (f *trying) Access(op *vfs.Op, h vfs.Handle, want vfs.Access, a *vfs.Attr) (got vfs.Access, err error) {
	f.attempt(op, func(op *vfs.Op) error { got, err = f.FileSystem.Access(op, h, want, a); return err })
	return
}

func (f *trying) Lookup(op *vfs.Op, dir vfs.Handle, name []byte, a *vfs.Attr) (o vfs.Object, err error) {
	f.attempt(op, func(op *vfs.Op) error { o, err = f.FileSystem.Lookup(op, dir, name, a); return err })
	return
}

func (f *trying) ReadLink(op *vfs.Op, h vfs.Handle, buf []byte, a *vfs.Attr) (n int, err error) {
	f.attempt(op, func(op *vfs.Op) error { n, err = f.FileSystem.ReadLink(op, h, buf, a); return err })
	return
}

func (f *trying) Read(op *vfs.Op, h vfs.Handle, off uint64, buf []byte, a *vfs.Attr) (n int, eof bool, err error) {
	f.attempt(op, func(op *vfs.Op) error { n, eof, err = f.FileSystem.Read(op, h, off, buf, a); return err })
	return
}

func (f *trying) Write(op *vfs.Op, h vfs.Handle, off uint64, data [][]byte, s vfs.Stability) (n int, done vfs.Stability, ch vfs.Change, err error) {
	f.attempt(op, func(op *vfs.Op) error { n, done, ch, err = f.FileSystem.Write(op, h, off, data, s); return err }, h)
	return
}

func (f *trying) Commit(op *vfs.Op, h vfs.Handle, off uint64, count uint32) (ch vfs.Change, err error) {
	f.attempt(op, func(op *vfs.Op) error { ch, err = f.FileSystem.Commit(op, h, off, count); return err }, h)
	return
}

func (f *trying) Create(op *vfs.Op, dir vfs.Handle, name []byte, how *vfs.CreateHow) (o vfs.Object, ch vfs.Change, err error) {
	hs := []vfs.Handle{dir}
	if f.check && how.Mode == vfs.Unchecked {
		// The call may truncate an existing file.
		var a vfs.Attr
		if there, err := f.FileSystem.Lookup(op, dir, name, &a); err == nil && !there.Handle.IsZero() {
			hs = append(hs, there.Handle)
		}
	}
	f.attempt(op, func(op *vfs.Op) error { o, ch, err = f.FileSystem.Create(op, dir, name, how); return err }, hs...)
	return
}

func (f *trying) Mkdir(op *vfs.Op, dir vfs.Handle, name []byte, s *vfs.SetAttr) (o vfs.Object, ch vfs.Change, err error) {
	f.attempt(op, func(op *vfs.Op) error { o, ch, err = f.FileSystem.Mkdir(op, dir, name, s); return err }, dir)
	return
}

func (f *trying) Symlink(op *vfs.Op, dir vfs.Handle, name, text []byte, s *vfs.SetAttr) (o vfs.Object, ch vfs.Change, err error) {
	f.attempt(op, func(op *vfs.Op) error { o, ch, err = f.FileSystem.Symlink(op, dir, name, text, s); return err }, dir)
	return
}

func (f *trying) Mknod(op *vfs.Op, dir vfs.Handle, name []byte, t vfs.Type, s *vfs.SetAttr, major, minor uint32) (o vfs.Object, ch vfs.Change, err error) {
	f.attempt(op, func(op *vfs.Op) error {
		o, ch, err = f.FileSystem.Mknod(op, dir, name, t, s, major, minor)
		return err
	}, dir)
	return
}

func (f *trying) Remove(op *vfs.Op, dir vfs.Handle, name []byte) (ch vfs.Change, err error) {
	f.attempt(op, func(op *vfs.Op) error { ch, err = f.FileSystem.Remove(op, dir, name); return err }, dir)
	return
}

func (f *trying) Rmdir(op *vfs.Op, dir vfs.Handle, name []byte) (ch vfs.Change, err error) {
	f.attempt(op, func(op *vfs.Op) error { ch, err = f.FileSystem.Rmdir(op, dir, name); return err }, dir)
	return
}

func (f *trying) Rename(op *vfs.Op, from vfs.Handle, a []byte, to vfs.Handle, b []byte) (fc, tc vfs.Change, err error) {
	f.attempt(op, func(op *vfs.Op) error { fc, tc, err = f.FileSystem.Rename(op, from, a, to, b); return err }, from, to)
	return
}

func (f *trying) Link(op *vfs.Op, h, dir vfs.Handle, name []byte, a *vfs.Attr) (ch vfs.Change, err error) {
	f.attempt(op, func(op *vfs.Op) error { ch, err = f.FileSystem.Link(op, h, dir, name, a); return err }, h, dir)
	return
}

func (f *trying) ReadDir(op *vfs.Op, dir vfs.Handle, cookie uint64, plus bool, a *vfs.Attr, emit func(*vfs.DirEntry) bool) (eof bool, err error) {
	given := 0
	f.attempt(op, func(op *vfs.Op) error {
		if !op.Try && given > 0 {
			f.t.Errorf("ReadDir answered ErrWouldBlock after %d entries", given)
		}
		eof, err = f.FileSystem.ReadDir(op, dir, cookie, plus, a, func(e *vfs.DirEntry) bool {
			if op.Try {
				given++
			}
			return emit(e)
		})
		return err
	})
	return
}
