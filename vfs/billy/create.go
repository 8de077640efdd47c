package billy

import (
	"bytes"
	"errors"
	"os"
	"syscall"

	gobilly "github.com/go-git/go-billy/v5"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A making is what is to be made.
type making struct {
	set *vfs.SetAttr
	how *vfs.CreateHow // nil but for a Create
	do  func(path string) error
	// file, where do opened one, is kept open; it was opened with flag.
	file gobilly.File
	flag int
}

// Create implements vfs.FileSystem.
func (f *FS) Create(op *vfs.Op, dir vfs.Handle, name []byte, how *vfs.CreateHow) (vfs.Object, vfs.Change, error) {
	m := making{set: &how.Attr, how: how, flag: f.forWriting()}
	if how.Mode == vfs.Exclusive {
		if f.change == nil || f.chmod == nil {
			// A client sets attributes next, which would fail; told so, it
			// comes back with another mode.
			return vfs.Object{}, vfs.Change{}, vfs.ErrNotSupported
		}
		m.set = &vfs.SetAttr{}
	}
	m.do = func(path string) (err error) {
		m.file, err = f.fs.OpenFile(path, m.flag|os.O_CREATE|os.O_EXCL, modeOr(m.set, 0o644))
		return err
	}
	return f.make(op, dir, name, &m)
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
	return f.make(op, dir, name, &making{set: s, do: func(path string) error {
		return f.fs.MkdirAll(path, modeOr(s, 0o755))
	}})
}

// Symlink implements vfs.FileSystem.
func (f *FS) Symlink(op *vfs.Op, dir vfs.Handle, name, text []byte, s *vfs.SetAttr) (vfs.Object, vfs.Change, error) {
	return f.make(op, dir, name, &making{set: &vfs.SetAttr{}, do: func(path string) error {
		switch {
		case len(text) == 0 || bytes.IndexByte(text, 0) >= 0:
			return syscall.EINVAL
		case len(text) > maxText:
			return syscall.ENAMETOOLONG
		}
		return f.fs.Symlink(string(text), path)
	}})
}

// Mknod implements vfs.FileSystem, where the file system has an
// nfs.UnixChange.
func (f *FS) Mknod(op *vfs.Op, dir vfs.Handle, name []byte, t vfs.Type, s *vfs.SetAttr, major, minor uint32) (vfs.Object, vfs.Change, error) {
	// As mknod(2) has them.
	const charDevice, blockDevice = 0o020000, 0o060000
	mode := uint32(modeOr(s, 0o644))
	var do func(path string) error
	switch t {
	case vfs.CharDevice:
		do = func(path string) error { return f.unix.Mknod(path, mode|charDevice, major, minor) }
	case vfs.BlockDevice:
		do = func(path string) error { return f.unix.Mknod(path, mode|blockDevice, major, minor) }
	case vfs.FIFO:
		do = func(path string) error { return f.unix.Mkfifo(path, mode) }
	case vfs.Socket:
		do = func(path string) error { return f.unix.Socket(path) }
	default:
		return vfs.Object{}, vfs.Change{}, syscall.EINVAL
	}
	if f.unix == nil {
		return vfs.Object{}, vfs.Change{}, vfs.ErrNotSupported
	}
	return f.make(op, dir, name, &making{set: s, do: func(path string) error {
		return f.fs.call(func() error { return do(path) })
	}})
}

func (f *FS) make(op *vfs.Op, dir vfs.Handle, name []byte, m *making) (o vfs.Object, ch vfs.Change, err error) {
	ch, err = f.alterDir(op, dir, name, func(d *node) (done, error) {
		if isDot(string(name)) {
			return looked, syscall.EEXIST
		}
		n, _, err := f.step(d, string(name))
		if err == nil {
			o, err = f.existing(n, m)
			return looked, err
		}
		if !errors.Is(err, syscall.ENOENT) {
			return looked, err
		}
		if o, err = f.child(d, string(name), m); err != nil {
			return looked, err
		}
		return rewritten, nil
	})
	return o, ch, err
}

// existing answers a making whose name n has.
func (f *FS) existing(n *node, m *making) (o vfs.Object, err error) {
	if m.how == nil || m.how.Mode == vfs.Guarded || n.kind != vfs.Regular {
		return o, syscall.EEXIST
	}
	if m.how.Mode == vfs.Exclusive {
		if n.exclusive == nil || *n.exclusive != m.how.Verifier {
			return o, syscall.EEXIST
		}
	} else if m.set.SetSize && m.set.Size == 0 {
		a, err := f.stat(n, looked)
		if err == nil {
			err = f.truncate(n, 0, &a)
		}
		if err == nil {
			_, err = f.stat(n, rewritten)
		}
		if err != nil {
			return o, err
		}
	}
	a, err := f.stat(n, looked)
	return n.object(a), err
}

// child makes what is not there yet.
func (f *FS) child(d *node, name string, m *making) (o vfs.Object, err error) {
	if m.set.SetSize && m.set.Size > f.opt.MaxFileSize {
		return o, syscall.EFBIG
	}
	path, err := f.path(d, name)
	if err != nil {
		return o, err
	}
	if err := m.do(path); err != nil {
		return o, err
	}
	var n *node
	s, err := f.lstat(path)
	if err == nil {
		n, err = f.adopt(d, name, s)
	}
	if err != nil {
		if m.file != nil {
			m.file.Close()
		}
		return o, err
	}
	if m.file != nil {
		f.keep(n, m.file, m.flag)
	}
	if m.how != nil && m.how.Mode == vfs.Exclusive {
		verifier := m.how.Verifier
		n.exclusive = &verifier
	}
	a, err := f.observe(n, s, looked)
	f.dress(n, m.set, &a)
	return n.object(a), err
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
		did, _ := f.set(n, &one, a)
		if b, err := f.stat(n, did); err == nil {
			*a = b
		}
	}
}
