package billy

import (
	"bytes"
	"os"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Create implements vfs.FileSystem.
func (f *FS) Create(op *vfs.Op, dir vfs.Handle, name []byte, how *vfs.CreateHow) (vfs.Object, vfs.Change, error) {
	h := *how
	if h.Mode == vfs.Exclusive {
		if f.change == nil || f.chmod == nil {
			// To complete an exclusive creation, the client sets attributes, which would fail.
			// After ErrNotSupported the client tries another mode at once.
			return vfs.Object{}, vfs.Change{}, vfs.ErrNotSupported
		}
		h.Attr = h.Attr.OfExclusive()
	}
	h.Attr = h.Attr.Masked()
	return f.make(op, dir, name, &h, func(path string) error {
		file, err := f.bfs.OpenFile(path, f.forWriting()|os.O_CREATE|os.O_EXCL, modeOr(&h.Attr, 0o644))
		if err == nil {
			err = file.Close()
		}
		return err
	})
}

// modeOr returns the permissions that s sets, or mode if it sets none.
func modeOr(s *vfs.SetAttr, mode os.FileMode) os.FileMode {
	if s.SetMode {
		return osMode(s.Mode).Perm()
	}
	return mode
}

// Mkdir implements vfs.FileSystem.
func (f *FS) Mkdir(op *vfs.Op, dir vfs.Handle, name []byte, s *vfs.SetAttr) (vfs.Object, vfs.Change, error) {
	how := &vfs.CreateHow{Mode: vfs.Guarded, Attr: s.Masked()}
	return f.make(op, dir, name, how, func(path string) error {
		return f.bfs.MkdirAll(path, modeOr(&how.Attr, 0o755))
	})
}

// Symlink implements vfs.FileSystem.
func (f *FS) Symlink(op *vfs.Op, dir vfs.Handle, name, text []byte, s *vfs.SetAttr) (vfs.Object, vfs.Change, error) {
	how := &vfs.CreateHow{Mode: vfs.Guarded}
	return f.make(op, dir, name, how, func(path string) error {
		switch {
		case len(text) == 0 || bytes.IndexByte(text, 0) >= 0:
			return syscall.EINVAL
		case len(text) > maxText:
			return syscall.ENAMETOOLONG
		}
		return f.bfs.Symlink(string(text), path)
	})
}

// Mknod implements vfs.FileSystem if the file system has an nfs.UnixChange.
func (f *FS) Mknod(op *vfs.Op, dir vfs.Handle, name []byte, t vfs.Type, s *vfs.SetAttr, major, minor uint32) (vfs.Object, vfs.Change, error) {
	switch {
	case t < vfs.BlockDevice || t > vfs.FIFO:
		return vfs.Object{}, vfs.Change{}, syscall.EINVAL
	case f.unix == nil:
		return vfs.Object{}, vfs.Change{}, vfs.ErrNotSupported
	}
	how := &vfs.CreateHow{Mode: vfs.Guarded, Attr: s.Masked()}
	return f.make(op, dir, name, how, func(path string) error {
		mode := uint32(modeOr(&how.Attr, 0o644))
		switch t {
		case vfs.CharDevice:
			return f.unix.Mknod(path, mode|syscall.S_IFCHR, major, minor)
		case vfs.BlockDevice:
			return f.unix.Mknod(path, mode|syscall.S_IFBLK, major, minor)
		case vfs.FIFO:
			return f.unix.Mkfifo(path, mode)
		}
		return f.unix.Socket(path)
	})
}

// make handles a creation: if name does not exist in dir, it calls the function do to make the
// file, and otherwise it calls FS.existing.
func (f *FS) make(op *vfs.Op, dir vfs.Handle, name []byte, how *vfs.CreateHow, do func(path string) error) (o vfs.Object, ch vfs.Change, err error) {
	ch, err = f.alterDir(op, dir, name, func(d *node) error {
		if vfs.IsDot(name) {
			return syscall.EEXIST
		}
		n, a, err := f.step(d, string(name))
		created := err == syscall.ENOENT
		if err == nil {
			err = f.existing(n, &a, how)
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

// existing handles a creation whose name exists already; n is the file of that name and a its
// attributes.
func (f *FS) existing(n *node, a *vfs.Attr, how *vfs.CreateHow) (err error) {
	switch {
	case how.Mode == vfs.Guarded, n.kind != vfs.Regular,
		how.Mode == vfs.Exclusive && (n.exclusive == nil || *n.exclusive != how.Verifier):
		return syscall.EEXIST
	case how.Mode == vfs.Exclusive, !how.Attr.SetSize, how.Attr.Size != 0:
		return nil
	}
	if err := f.truncate(n, 0, a); err != nil {
		return err
	}
	*a, err = f.stat(n)
	return err
}

// child makes a file called name in d by calling the function do, and returns its node. No such
// file exists yet.
func (f *FS) child(d *node, name string, how *vfs.CreateHow, do func(path string) error) (n *node, a vfs.Attr, err error) {
	if how.Attr.SetSize && how.Attr.Size > f.opt.MaxFileSize {
		return n, a, syscall.EFBIG
	}
	if err = f.at(d, name, do); err != nil {
		return n, a, err
	}
	if n, a, err = f.step(d, name); err != nil {
		return n, a, err
	}
	n.made = true
	if how.Mode == vfs.Exclusive {
		n.exclusive = &how.Verifier
	}
	f.dress(n, &how.Attr, &a)
	return n, a, nil
}

// dress applies the requested attributes to a new file, as far as the file system can. It ignores
// errors, because the file is made already.
func (f *FS) dress(n *node, s *vfs.SetAttr, a *vfs.Attr) {
	mode := s.Mode & 0o7777
	if n.kind == vfs.Directory {
		mode |= a.Mode & setGID // the bit inherited from the parent directory
	}
	for _, one := range []vfs.SetAttr{
		{SetSize: s.SetSize && n.kind == vfs.Regular && s.Size != a.Size, Size: s.Size},
		{SetUID: s.SetUID, UID: s.UID, SetGID: s.SetGID, GID: s.GID},
		{SetMode: s.SetMode && mode != a.Mode, Mode: mode},
		{AtimeHow: s.AtimeHow, Atime: s.Atime, MtimeHow: s.MtimeHow, Mtime: s.Mtime},
	} {
		if f.maySet(n, &one, a) == nil {
			_ = f.set(n, &one, a)
		}
	}
	if b, err := f.stat(n); err == nil {
		*a = b
	}
}
