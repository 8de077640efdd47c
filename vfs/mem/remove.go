package memfs

import (
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Remove implements vfs.FileSystem.
func (f *FS) Remove(op *vfs.Op, dir vfs.Handle, name []byte) (vfs.Change, error) {
	if err := f.enter(op, Remove); err != nil {
		return vfs.Change{}, err
	}
	defer f.leave()
	return f.unlink(op, dir, name, false)
}

// Rmdir implements vfs.FileSystem.
func (f *FS) Rmdir(op *vfs.Op, dir vfs.Handle, name []byte) (vfs.Change, error) {
	if err := f.enter(op, Rmdir); err != nil {
		return vfs.Change{}, err
	}
	defer f.leave()
	return f.unlink(op, dir, name, true)
}

func (f *FS) unlink(op *vfs.Op, dir vfs.Handle, name []byte, rmdir bool) (ch vfs.Change, err error) {
	d, err := f.lockDir(dir)
	if err != nil {
		return ch, err
	}
	defer d.mu.Unlock()
	ch = d.before()
	defer d.after(&ch)
	if err := vfs.CheckName(name, maxName); err != nil {
		return ch, err
	}
	switch {
	case string(name) == ".":
		return ch, syscall.EINVAL
	case string(name) == "..":
		return ch, syscall.EEXIST // RFC 1813 §3.3.13
	case !may(op.Cred, &d.attr, mayExec):
		return ch, syscall.EACCES
	}
	n := d.dir.get(name)
	if n == nil {
		return ch, syscall.ENOENT
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := mayUnlink(op.Cred, &d.attr, &n.attr); err != nil {
		return ch, err
	}
	switch {
	case rmdir && n.dir == nil:
		return ch, syscall.ENOTDIR
	case !rmdir && n.dir != nil:
		return ch, syscall.EISDIR
	case rmdir && len(n.dir.names) > 0:
		return ch, syscall.ENOTEMPTY
	}
	now := f.now()
	d.dir.remove(name)
	if rmdir {
		d.attr.Nlink--
	}
	d.renamed(now)
	f.drop(n, now)
	return ch, nil
}
