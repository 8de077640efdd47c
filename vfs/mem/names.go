package memfs

import (
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Lookup implements vfs.FileSystem.
func (f *FS) Lookup(op *vfs.Op, dir vfs.Handle, name []byte, dirAttr *vfs.Attr) (o vfs.Object, err error) {
	if err := f.enter(op, Lookup); err != nil {
		return o, err
	}
	defer f.leave()
	for {
		n, err := f.lookup(op, dir, name, dirAttr)
		if err != nil {
			return o, err
		}
		n.mu.RLock()
		gone := n.gone
		o = n.object(f)
		n.tell(op, &o.Attr)
		n.mu.RUnlock()
		if !gone {
			return o, nil
		}
		// Another call removed the name between the two locks. Look it up again.
	}
}

func (f *FS) lookup(op *vfs.Op, dir vfs.Handle, name []byte, dirAttr *vfs.Attr) (*node, error) {
	d, err := f.rlock(dir)
	if err != nil {
		return nil, err
	}
	defer d.mu.RUnlock()
	*dirAttr = d.attr
	if d.dir == nil {
		return nil, syscall.ENOTDIR
	}
	if err := vfs.CheckName(name, maxName); err != nil {
		return nil, err
	}
	if !may(op.Cred, &d.attr, mayExec) {
		return nil, syscall.EACCES
	}
	switch {
	case string(name) == ".":
		return d, nil
	case string(name) == "..":
		return d.dir.parent, nil
	}
	n := d.dir.get(name)
	if n == nil {
		return nil, syscall.ENOENT
	}
	return n, nil
}

// ReadLink implements vfs.FileSystem.
func (f *FS) ReadLink(op *vfs.Op, h vfs.Handle, buf []byte, a *vfs.Attr) (int, error) {
	if err := f.enter(op, ReadLink); err != nil {
		return 0, err
	}
	defer f.leave()
	n, err := f.rlock(h)
	if err != nil {
		return 0, err
	}
	defer n.mu.RUnlock()
	*a = n.attr
	if n.attr.Type != vfs.Symlink {
		return 0, syscall.EINVAL
	}
	if len(buf) < len(n.text) {
		return 0, syscall.ENAMETOOLONG
	}
	return copy(buf, n.text), nil
}

// Link implements vfs.FileSystem.
func (f *FS) Link(op *vfs.Op, h, dir vfs.Handle, name []byte, a *vfs.Attr) (vfs.Change, error) {
	return f.alterDir(op, Link, dir, func(d *node) error {
		n, err := f.find(h)
		if err != nil {
			return err
		}
		// Refuse a directory before locking n: n may be d itself, which is locked already, or an
		// ancestor of d, which has to be locked before d.
		if n.dir != nil {
			return syscall.EPERM
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.gone || n.attr.Nlink == 0 {
			return syscall.ESTALE
		}
		*a = n.attr
		if err := vfs.CheckName(name, maxName); err != nil {
			return err
		}
		switch {
		case !may(op.Cred, &d.attr, mayExec):
			return syscall.EACCES
		case vfs.IsDot(name) || d.dir.get(name) != nil:
			return syscall.EEXIST
		case !may(op.Cred, &d.attr, mayWrite):
			return syscall.EACCES
		case n.attr.Nlink >= maxLink:
			return syscall.EMLINK
		}
		now := f.now()
		n.attr.Nlink++
		n.touch(now, false)
		d.dir.put(name, n)
		d.renamed(now)
		*a = n.attr
		return nil
	})
}

// Remove implements vfs.FileSystem.
func (f *FS) Remove(op *vfs.Op, dir vfs.Handle, name []byte) (vfs.Change, error) {
	return f.unlink(op, Remove, dir, name)
}

// Rmdir implements vfs.FileSystem.
func (f *FS) Rmdir(op *vfs.Op, dir vfs.Handle, name []byte) (vfs.Change, error) {
	return f.unlink(op, Rmdir, dir, name)
}

func (f *FS) unlink(op *vfs.Op, m Method, dir vfs.Handle, name []byte) (vfs.Change, error) {
	return f.alterDir(op, m, dir, func(d *node) error {
		if err := vfs.CheckName(name, maxName); err != nil {
			return err
		}
		switch {
		case string(name) == ".":
			return syscall.EINVAL
		case string(name) == "..":
			return syscall.EEXIST // RFC 1813 §3.3.13
		case !may(op.Cred, &d.attr, mayExec):
			return syscall.EACCES
		}
		n := d.dir.get(name)
		if n == nil {
			return syscall.ENOENT
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		if err := mayUnlink(op.Cred, &d.attr, &n.attr); err != nil {
			return err
		}
		switch {
		case m == Rmdir && n.dir == nil:
			return syscall.ENOTDIR
		case m == Remove && n.dir != nil:
			return syscall.EISDIR
		case m == Rmdir && len(n.dir.names) > 0:
			return syscall.ENOTEMPTY
		}
		now := f.now()
		d.dir.remove(name)
		if m == Rmdir {
			d.attr.Nlink--
		}
		d.renamed(now)
		f.drop(n, now)
		return nil
	})
}
