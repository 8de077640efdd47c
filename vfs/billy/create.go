package billy

import (
	"bytes"
	"os"
	"syscall"

	gobilly "github.com/go-git/go-billy/v5"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Create implements vfs.FileSystem.
func (f *FS) Create(op *vfs.Op, dir vfs.Handle, name []byte, how *vfs.CreateHow) (vfs.Object, vfs.Change, error) {
	h := *how
	if h.Mode == vfs.Exclusive {
		if f.change == nil || f.chmod == nil {
			// A client sets attributes next, which would fail; told so, it
			// comes back with another mode.
			return vfs.Object{}, vfs.Change{}, vfs.ErrNotSupported
		}
		h.Attr = h.Attr.OfExclusive()
	}
	h.Attr = h.Attr.Masked()
	return f.make(op, dir, name, &h, func(path string) (gobilly.File, error) {
		return f.bfs.OpenFile(path, f.forWriting()|os.O_CREATE|os.O_EXCL, modeOr(&h.Attr, 0o644))
	})
}

// modeOr is the permissions that s sets, or else mode.
func modeOr(s *vfs.SetAttr, mode os.FileMode) os.FileMode {
	if s.SetMode {
		return osMode(s.Mode).Perm()
	}
	return mode
}

// Mkdir implements vfs.FileSystem.
func (f *FS) Mkdir(op *vfs.Op, dir vfs.Handle, name []byte, s *vfs.SetAttr) (vfs.Object, vfs.Change, error) {
	how := &vfs.CreateHow{Mode: vfs.Guarded, Attr: s.Masked()}
	return f.make(op, dir, name, how, func(path string) (gobilly.File, error) {
		return nil, f.bfs.MkdirAll(path, modeOr(&how.Attr, 0o755))
	})
}

// Symlink implements vfs.FileSystem.
func (f *FS) Symlink(op *vfs.Op, dir vfs.Handle, name, text []byte, s *vfs.SetAttr) (vfs.Object, vfs.Change, error) {
	how := &vfs.CreateHow{Mode: vfs.Guarded}
	return f.make(op, dir, name, how, func(path string) (gobilly.File, error) {
		switch {
		case len(text) == 0 || bytes.IndexByte(text, 0) >= 0:
			return nil, syscall.EINVAL
		case len(text) > maxText:
			return nil, syscall.ENAMETOOLONG
		}
		return nil, f.bfs.Symlink(string(text), path)
	})
}

// Mknod implements vfs.FileSystem, where the file system has an
// nfs.UnixChange.
func (f *FS) Mknod(op *vfs.Op, dir vfs.Handle, name []byte, t vfs.Type, s *vfs.SetAttr, major, minor uint32) (vfs.Object, vfs.Change, error) {
	switch {
	case t < vfs.BlockDevice || t > vfs.FIFO:
		return vfs.Object{}, vfs.Change{}, syscall.EINVAL
	case f.unix == nil:
		return vfs.Object{}, vfs.Change{}, vfs.ErrNotSupported
	}
	how := &vfs.CreateHow{Mode: vfs.Guarded, Attr: s.Masked()}
	return f.make(op, dir, name, how, func(path string) (gobilly.File, error) {
		mode := uint32(modeOr(&how.Attr, 0o644))
		switch t {
		case vfs.CharDevice:
			return nil, f.unix.Mknod(path, mode|syscall.S_IFCHR, major, minor)
		case vfs.BlockDevice:
			return nil, f.unix.Mknod(path, mode|syscall.S_IFBLK, major, minor)
		case vfs.FIFO:
			return nil, f.unix.Mkfifo(path, mode)
		}
		return nil, f.unix.Socket(path)
	})
}

// make makes name in dir, by do, if there is no such file. A file that do opened
// is kept open.
func (f *FS) make(op *vfs.Op, dir vfs.Handle, name []byte, how *vfs.CreateHow, do func(path string) (gobilly.File, error)) (o vfs.Object, ch vfs.Change, err error) {
	ch, err = f.alterDir(op, dir, name, func(d *node) error {
		if isDot(string(name)) {
			return syscall.EEXIST
		}
		n, a, err := f.step(d, string(name))
		created := err == syscall.ENOENT
		if err == nil {
			a, err = f.existing(n, &a, how)
		} else if created {
			n, a, err = f.child(d, string(name), how, do)
		}
		if err == nil {
			o = n.object(a)
			o.Created = created || how.Mode == vfs.Exclusive
		}
		return err
	})
	return o, ch, err
}

// existing answers a creation whose name n has; a was just shown of n.
func (f *FS) existing(n *node, a *vfs.Attr, how *vfs.CreateHow) (vfs.Attr, error) {
	switch {
	case how.Mode == vfs.Guarded, n.kind != vfs.Regular,
		how.Mode == vfs.Exclusive && (n.exclusive == nil || *n.exclusive != how.Verifier):
		return *a, syscall.EEXIST
	case how.Mode == vfs.Exclusive, !how.Attr.SetSize, how.Attr.Size != 0:
		return *a, f.observe(n, a)
	}
	if err := f.truncate(n, 0, a); err != nil {
		return *a, err
	}
	return f.stat(n)
}

// child makes what is not there yet.
func (f *FS) child(d *node, name string, how *vfs.CreateHow, do func(path string) (gobilly.File, error)) (n *node, a vfs.Attr, err error) {
	if how.Attr.SetSize && how.Attr.Size > f.opt.MaxFileSize {
		return n, a, syscall.EFBIG
	}
	var file gobilly.File
	err = f.at(d, name, func(path string) (err error) { file, err = do(path); return })
	if err != nil {
		return n, a, err
	}
	n, a, err = f.step(d, name)
	if err != nil {
		if file != nil {
			f.call(file.Close)
		}
		return n, a, err
	}
	if file != nil {
		f.keep(n, file, f.forWriting())
	}
	if how.Mode == vfs.Exclusive {
		n.exclusive = &how.Verifier
	}
	err = f.observe(n, &a)
	f.dress(n, &how.Attr, &a)
	return n, a, err
}

// dress gives a new file the attributes that it was asked for with, as far as
// the file system can: it was made, whatever becomes of them.
func (f *FS) dress(n *node, s *vfs.SetAttr, a *vfs.Attr) {
	mode := s.Mode & 0o7777
	if n.kind == vfs.Directory {
		mode |= a.Mode & setGID // what it inherited
	}
	for _, one := range []vfs.SetAttr{
		{SetSize: s.SetSize && n.kind == vfs.Regular && s.Size != a.Size, Size: s.Size},
		{SetUID: s.SetUID, UID: s.UID, SetGID: s.SetGID, GID: s.GID},
		{SetMode: s.SetMode && mode != a.Mode, Mode: mode},
		{AtimeHow: s.AtimeHow, Atime: s.Atime, MtimeHow: s.MtimeHow, Mtime: s.Mtime},
	} {
		if one.IsZero() || f.maySet(n, &one, a) != nil {
			continue
		}
		_ = f.set(n, &one, a)
		if b, err := f.stat(n); err == nil {
			*a = b
		}
	}
}
