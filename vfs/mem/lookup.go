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
