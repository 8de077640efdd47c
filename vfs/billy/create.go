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
	how *vfs.CreateHow // for a Create
	// do makes it. The file, where one was opened, is kept.
	do func(path string) (gobilly.File, error)
}

// Create implements vfs.FileSystem.
func (f *FS) Create(op *vfs.Op, dir vfs.Handle, name []byte, how *vfs.CreateHow) (vfs.Object, vfs.Change, error) {
	if how.Mode == vfs.Exclusive && (f.change == nil || f.chmod == nil) {
		// A client sets attributes next, which would fail; told so, it comes
		// back with another mode.
		return vfs.Object{}, vfs.Change{}, vfs.ErrNotSupported
	}
	m := making{set: &how.Attr, how: how}
	if how.Mode == vfs.Exclusive {
		m.set = &vfs.SetAttr{}
	}
	m.do = func(path string) (gobilly.File, error) {
		flag := os.O_RDWR | os.O_CREATE | os.O_EXCL
		if !gobilly.CapabilityCheck(f.fs, gobilly.ReadAndWriteCapability) {
			flag = os.O_WRONLY | os.O_CREATE | os.O_EXCL
		}
		return f.fs.OpenFile(path, flag, modeOr(m.set, 0o644).Perm())
	}
	return f.make(op, dir, name, &m)
}

func modeOr(s *vfs.SetAttr, mode os.FileMode) os.FileMode {
	if s.SetMode {
		return osMode(s.Mode)
	}
	return mode
}

// Mkdir implements vfs.FileSystem.
func (f *FS) Mkdir(op *vfs.Op, dir vfs.Handle, name []byte, s *vfs.SetAttr) (vfs.Object, vfs.Change, error) {
	return f.make(op, dir, name, &making{set: s, do: func(path string) (gobilly.File, error) {
		return nil, f.fs.MkdirAll(path, modeOr(s, 0o755).Perm())
	}})
}

// Symlink implements vfs.FileSystem.
func (f *FS) Symlink(op *vfs.Op, dir vfs.Handle, name, text []byte, s *vfs.SetAttr) (vfs.Object, vfs.Change, error) {
	return f.make(op, dir, name, &making{set: &vfs.SetAttr{}, do: func(path string) (gobilly.File, error) {
		switch {
		case len(text) == 0 || bytes.IndexByte(text, 0) >= 0:
			return nil, syscall.EINVAL
		case len(text) > maxText:
			return nil, syscall.ENAMETOOLONG
		}
		return nil, f.fs.Symlink(string(text), path)
	}})
}

// Mknod implements vfs.FileSystem, where the file system has an
// nfs.UnixChange.
func (f *FS) Mknod(op *vfs.Op, dir vfs.Handle, name []byte, t vfs.Type, s *vfs.SetAttr, major, minor uint32) (vfs.Object, vfs.Change, error) {
	// As mknod(2) has them.
	const charDevice, blockDevice = 0o020000, 0o060000
	mode := uint32(modeOr(s, 0o644).Perm())
	m := making{set: s}
	switch t {
	case vfs.CharDevice:
		m.do = func(path string) (gobilly.File, error) { return nil, f.unix.Mknod(path, mode|charDevice, major, minor) }
	case vfs.BlockDevice:
		m.do = func(path string) (gobilly.File, error) {
			return nil, f.unix.Mknod(path, mode|blockDevice, major, minor)
		}
	case vfs.FIFO:
		m.do = func(path string) (gobilly.File, error) { return nil, f.unix.Mkfifo(path, mode) }
	case vfs.Socket:
		m.do = func(path string) (gobilly.File, error) { return nil, f.unix.Socket(path) }
	default:
		return vfs.Object{}, vfs.Change{}, syscall.EINVAL
	}
	if f.unix == nil {
		return vfs.Object{}, vfs.Change{}, vfs.ErrNotSupported
	}
	return f.make(op, dir, name, &m)
}

// inDir begins a change of a directory by name: FS.calls is held exclusively.
func (f *FS) inDir(dir vfs.Handle, name []byte, ch *vfs.Change) (*node, error) {
	d, err := f.changing(dir, ch)
	if err != nil {
		return nil, err
	}
	switch {
	case d.kind != vfs.Directory:
		return d, syscall.ENOTDIR
	case f.readOnly:
		return d, syscall.EROFS
	}
	return d, checkName(name)
}

func (f *FS) make(op *vfs.Op, dir vfs.Handle, name []byte, m *making) (o vfs.Object, ch vfs.Change, err error) {
	if op.Try {
		return o, ch, vfs.ErrWouldBlock
	}
	f.calls.Lock()
	defer f.calls.Unlock()
	d, err := f.inDir(dir, name, &ch)
	if err == nil && isDot(string(name)) {
		err = syscall.EEXIST
	}
	if err != nil {
		if d != nil {
			f.changed(d, &ch, looked, false)
		}
		return o, ch, err
	}
	did := looked
	n, _, err := f.step(d, string(name))
	switch {
	case err == nil:
		o, err = f.existing(n, m)
	case errors.Is(err, syscall.ENOENT):
		if o, err = f.child(d, string(name), m); err == nil {
			did = rewritten
		}
	}
	f.namesChanged(d, &ch, did)
	return o, ch, err
}

// namesChanged ends a Change of a directory: where it was known whole, and
// nobody else has been at it, it still is.
func (f *FS) namesChanged(d *node, ch *vfs.Change, did done) {
	f.mu.Lock()
	whole := d.children.whole && d.children.listed == d.seen
	f.mu.Unlock()
	f.changed(d, ch, did, false)
	if did == rewritten && whole {
		f.mu.Lock()
		d.children.listed = d.seen
		f.mu.Unlock()
	}
}

// existing answers a making whose name n has.
func (f *FS) existing(n *node, m *making) (o vfs.Object, err error) {
	if m.how == nil || m.how.Mode == vfs.Guarded || n.kind != vfs.Regular {
		return o, syscall.EEXIST
	}
	if m.how.Mode == vfs.Exclusive {
		f.mu.Lock()
		same := n.exclusive && n.verifier == m.how.Verifier
		f.mu.Unlock()
		if !same {
			return o, syscall.EEXIST
		}
	} else if m.set.SetSize && m.set.Size == 0 {
		path, err := f.path(n)
		if err != nil {
			return o, err
		}
		n.io.Lock()
		a, err := f.stat(n, looked, true)
		if err == nil {
			err = f.truncate(n, path, 0)
		}
		if err == nil {
			f.dropSetID(n, path, &a)
			_, err = f.stat(n, rewritten, true)
		}
		n.io.Unlock()
		if err != nil {
			return o, err
		}
	}
	a, err := f.stat(n, looked, false)
	return n.object(a), err
}

// child makes what is not there yet.
func (f *FS) child(d *node, name string, m *making) (o vfs.Object, err error) {
	if m.set.SetSize && m.set.Size > f.opt.MaxFileSize {
		return o, syscall.EFBIG
	}
	path, err := f.pathIn(d, name)
	if err != nil {
		return o, err
	}
	var file gobilly.File
	err = f.fs.call(func() (err error) { file, err = m.do(path); return })
	if err != nil {
		return o, errno(err)
	}
	info, err := f.fs.Lstat(path)
	if err != nil {
		if file != nil {
			file.Close()
		}
		return o, errno(err)
	}
	n := f.adopt(d, name, info)
	f.measure(n, path)
	if file != nil {
		read := gobilly.CapabilityCheck(f.fs, gobilly.ReadAndWriteCapability)
		f.open.put(f.open.add(&openFile{node: n, file: file, read: read, write: true}))
	}
	if m.how != nil && m.how.Mode == vfs.Exclusive {
		f.mu.Lock()
		n.exclusive, n.verifier = true, m.how.Verifier
		f.mu.Unlock()
	}
	a := f.observe(n, info, looked)
	f.dress(n, m.set, &a)
	return n.object(a), nil
}

// dress gives a new file the attributes that it was asked for with, as far as
// the file system can: it was made, whatever becomes of them.
func (f *FS) dress(n *node, s *vfs.SetAttr, a *vfs.Attr) {
	n.io.Lock()
	defer n.io.Unlock()
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
		if b, err := f.stat(n, did, true); err == nil {
			*a = b
		}
	}
}
