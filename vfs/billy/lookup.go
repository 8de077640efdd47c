package billy

import (
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// object is n as it was just seen.
func (n *node) object(a vfs.Attr) vfs.Object {
	return vfs.Object{Handle: n.handle, Attr: a, HasAttr: true}
}

// Lookup implements vfs.FileSystem.
func (f *FS) Lookup(op *vfs.Op, dir vfs.Handle, name []byte, dirAttr *vfs.Attr) (o vfs.Object, err error) {
	if op.Try {
		return o, vfs.ErrWouldBlock
	}
	f.calls.RLock()
	defer f.calls.RUnlock()
	d, err := f.look(dir, dirAttr)
	if err != nil {
		return o, err
	}
	if d.kind != vfs.Directory {
		return o, syscall.ENOTDIR
	}
	if err := checkName(name); err != nil {
		return o, err
	}
	if isDot(string(name)) {
		n := d
		if len(name) == 2 {
			n = f.parent(d)
		}
		a, err := f.stat(n, looked, false)
		return n.object(a), err
	}
	n, info, err := f.step(d, string(name))
	if err != nil {
		return o, err
	}
	return n.object(f.observe(n, info, looked)), nil
}

// parent is the directory that d is in; the root is in itself.
func (f *FS) parent(d *node) *node {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(d.links) == 0 {
		return d
	}
	return d.links[0].dir
}

// ReadLink implements vfs.FileSystem.
func (f *FS) ReadLink(op *vfs.Op, h vfs.Handle, buf []byte, a *vfs.Attr) (int, error) {
	if op.Try {
		return 0, vfs.ErrWouldBlock
	}
	f.calls.RLock()
	defer f.calls.RUnlock()
	n, err := f.look(h, a)
	if err != nil {
		return 0, err
	}
	if n.kind != vfs.Symlink {
		return 0, syscall.EINVAL
	}
	path, err := f.path(n)
	if err != nil {
		return 0, err
	}
	text, err := f.fs.Readlink(path)
	if err != nil {
		return 0, errno(err)
	}
	if len(text) > len(buf) {
		return 0, syscall.ENAMETOOLONG
	}
	return copy(buf, text), nil
}
