package billy

import (
	"bytes"
	"cmp"
	"os"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// object returns n as a vfs.Object. The argument a holds n's attributes, just read.
func (n *node) object(a vfs.Attr) vfs.Object {
	return vfs.Object{Handle: n.handle, Attr: a, HasAttr: true}
}

// Lookup implements vfs.FileSystem.
func (f *FS) Lookup(op *vfs.Op, dir vfs.Handle, name []byte, dirAttr *vfs.Attr) (o vfs.Object, err error) {
	err = f.look(op, func() error {
		d, err := f.get(dir, dirAttr)
		if err != nil {
			return err
		}
		if err := d.mayName(name); err != nil {
			return err
		}
		var a vfs.Attr
		n := d
		switch string(name) {
		case ".":
			a = *dirAttr
		case "..":
			n = d.parent()
			a, err = f.stat(n)
		default:
			n, a, err = f.step(d, string(name))
		}
		if err == nil {
			o = n.object(a)
		}
		return err
	})
	return o, err
}

// parent returns the directory that holds the directory n; the parent of the root is the root.
func (n *node) parent() *node {
	if len(n.links) == 0 {
		return n
	}
	return n.links[0].dir
}

// ReadLink implements vfs.FileSystem.
func (f *FS) ReadLink(op *vfs.Op, h vfs.Handle, buf []byte, a *vfs.Attr) (length int, err error) {
	err = f.look(op, func() error {
		n, err := f.get(h, a)
		if err != nil {
			return err
		}
		if n.kind != vfs.Symlink {
			return syscall.EINVAL
		}
		return f.at(n, "", func(path string) error {
			text, err := f.bfs.Readlink(path)
			if err == nil && len(text) > len(buf) {
				err = syscall.ENAMETOOLONG
			}
			if err == nil {
				length = copy(buf, text)
			}
			return err
		})
	})
	return length, err
}

// mayName returns nil if n is a directory and name is valid in it, and the error otherwise.
func (n *node) mayName(name []byte) error {
	if n.kind != vfs.Directory {
		return syscall.ENOTDIR
	}
	return vfs.CheckName(name, maxName)
}

// alterDir runs the function do, which changes name in the directory dir, while no other call runs.
func (f *FS) alterDir(op *vfs.Op, dir vfs.Handle, name []byte, do func(d *node) error) (ch vfs.Change, err error) {
	err = f.alter(op, dir, &ch, func(d *node) error {
		if err := d.mayName(name); err != nil {
			return err
		}
		err := do(d)
		if err == nil {
			d.did = rewritten
		}
		return err
	})
	return ch, err
}

// Link implements vfs.FileSystem if the file system has an nfs.UnixChange.
func (f *FS) Link(op *vfs.Op, h, dir vfs.Handle, name []byte, a *vfs.Attr) (ch vfs.Change, err error) {
	if f.unix == nil {
		return ch, vfs.ErrNotSupported
	}
	return f.alterDir(op, dir, name, func(d *node) error {
		n, err := f.get(h, a)
		switch {
		case err != nil:
			return err
		case n.kind == vfs.Directory:
			return syscall.EPERM
		case vfs.IsDot(name):
			return syscall.EEXIST
		}
		if _, _, err := f.step(d, string(name)); err != syscall.ENOENT {
			return cmp.Or(err, error(syscall.EEXIST))
		}
		if err := f.at2(n, "", d, string(name), f.unix.Link); err != nil {
			return err
		}
		n.attach(d, string(name))
		n.did = altered
		*a, err = f.stat(n)
		return err
	})
}

// Remove implements vfs.FileSystem.
func (f *FS) Remove(op *vfs.Op, dir vfs.Handle, name []byte) (vfs.Change, error) {
	return f.unlink(op, dir, name, false)
}

// Rmdir implements vfs.FileSystem.
func (f *FS) Rmdir(op *vfs.Op, dir vfs.Handle, name []byte) (vfs.Change, error) {
	return f.unlink(op, dir, name, true)
}

func (f *FS) unlink(op *vfs.Op, dir vfs.Handle, name []byte, rmdir bool) (vfs.Change, error) {
	return f.alterDir(op, dir, name, func(d *node) error {
		switch string(name) {
		case ".":
			return syscall.EINVAL
		case "..":
			return syscall.EEXIST // RFC 1813 §3.3.13
		}
		n, _, err := f.step(d, string(name))
		switch {
		case err != nil:
			return err
		case rmdir && n.kind != vfs.Directory:
			return syscall.ENOTDIR
		case !rmdir && n.kind == vfs.Directory:
			return syscall.EISDIR
		}
		if err := f.empty(n); err != nil {
			return err
		}
		if err := f.at(d, string(name), f.bfs.Remove); err != nil {
			return err
		}
		f.detach(d.names[string(name)])
		n.did = altered
		return nil
	})
}

// empty returns ENOTEMPTY for a directory that has entries, because Remove of some billy file
// systems removes even such a directory.
func (f *FS) empty(n *node) error {
	if n.kind != vfs.Directory {
		return nil
	}
	return f.at(n, "", func(path string) error {
		infos, err := f.bfs.ReadDir(path)
		if err == nil && len(infos) > 0 {
			err = syscall.ENOTEMPTY
		}
		return err
	})
}

// Rename implements vfs.FileSystem.
func (f *FS) Rename(op *vfs.Op, fromDir vfs.Handle, fromName []byte, toDir vfs.Handle, toName []byte) (from, to vfs.Change, err error) {
	err = f.alter(op, fromDir, &from, func(a *node) error {
		return f.within(toDir, &to, func(b *node) error {
			if err := cmp.Or(a.mayName(fromName), b.mayName(toName)); err != nil {
				return err
			}
			if vfs.IsDot(fromName) || vfs.IsDot(toName) {
				return syscall.EINVAL
			}
			return f.move(a, string(fromName), b, string(toName))
		})
	})
	return from, to, err
}

// move does a rename. It refuses what POSIX forbids, because not every billy file system does.
func (f *FS) move(a *node, fromName string, b *node, toName string) error {
	n, _, err := f.step(a, fromName)
	if err != nil {
		return err
	}
	if n.above(b) {
		return syscall.EINVAL
	}
	old, _, err := f.step(b, toName)
	switch {
	case err != nil && err != syscall.ENOENT:
		return err
	case old == n:
		return nil
	case old != nil && n.kind == vfs.Directory && old.kind != vfs.Directory:
		return syscall.ENOTDIR
	case old != nil && n.kind != vfs.Directory && old.kind == vfs.Directory:
		return syscall.EISDIR
	case old != nil:
		if err := f.empty(old); err != nil {
			return err
		}
	}
	err = f.at2(a, fromName, b, toName, func(from, to string) error { return f.rename(from, to, old) })
	if err != nil {
		return err
	}
	f.detach(b.names[toName])
	// n has both names for a moment, so that detach does not remove its node.
	n.attach(b, toName)
	f.detach(a.names[fromName])
	f.invalidate(n)
	if old != nil {
		old.did = altered
	}
	n.did, a.did, b.did = altered, rewritten, rewritten
	return nil
}

// rename moves the file at the path from to the path to; old is the file that it replaces, or nil.
// Package os, and file systems built on it, refuse to replace an empty directory by a directory.
// In that case rename removes the empty directory and tries again.
func (f *FS) rename(from, to string, old *node) error {
	err := f.bfs.Rename(from, to)
	if old == nil || old.kind != vfs.Directory || errno(err) != syscall.EEXIST {
		return err
	}
	if err := f.bfs.Remove(to); err != nil {
		return err
	}
	if err = f.bfs.Rename(from, to); err != nil {
		// Make an empty directory at the name again. It is a new one, with another handle.
		_ = f.bfs.MkdirAll(to, osMode(old.seen.Mode).Perm())
	}
	return err
}

// above reports whether n is the directory d or an ancestor of d.
func (n *node) above(d *node) bool {
	for n != d && len(d.links) > 0 {
		d = d.links[0].dir
	}
	return n == d
}

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
	case t < vfs.BlockDevice || t == vfs.Symlink || t > vfs.FIFO:
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

// existing handles a creation whose name is that of the file n, which has the attributes a.
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

// child makes a new file called name in d by calling the function do, and returns its node.
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
