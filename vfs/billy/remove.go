package billy

import (
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Remove implements vfs.FileSystem.
func (f *FS) Remove(op *vfs.Op, dir vfs.Handle, name []byte) (vfs.Change, error) {
	return f.unlink(op, dir, name, false)
}

// Rmdir implements vfs.FileSystem.
func (f *FS) Rmdir(op *vfs.Op, dir vfs.Handle, name []byte) (vfs.Change, error) {
	return f.unlink(op, dir, name, true)
}

func (f *FS) unlink(op *vfs.Op, dir vfs.Handle, name []byte, rmdir bool) (ch vfs.Change, err error) {
	if op.Try {
		return ch, vfs.ErrWouldBlock
	}
	f.calls.Lock()
	defer f.calls.Unlock()
	d, err := f.inDir(dir, name, &ch)
	if err == nil {
		err = f.removeName(d, string(name), rmdir)
	}
	if d != nil && d.kind == vfs.Directory {
		did := looked
		if err == nil {
			did = rewritten
		}
		f.namesChanged(d, &ch, did)
	}
	return ch, err
}

func (f *FS) removeName(d *node, name string, rmdir bool) error {
	switch name {
	case ".":
		return syscall.EINVAL
	case "..":
		return syscall.EEXIST // RFC 1813 §3.3.13
	}
	n, _, err := f.step(d, name)
	if err != nil {
		return err
	}
	isDir := n.kind == vfs.Directory
	switch {
	case rmdir && !isDir:
		return syscall.ENOTDIR
	case !rmdir && isDir:
		return syscall.EISDIR
	}
	path, err := f.pathIn(d, name)
	if err != nil {
		return err
	}
	if isDir {
		// billy's Remove removes either, and some remove a full one.
		if err := f.isEmpty(path); err != nil {
			return err
		}
	}
	f.open.drop(n)
	if err := f.fs.Remove(path); err != nil {
		return errno(err)
	}
	f.mu.Lock()
	f.detach(d, name)
	gone := len(n.links) == 0
	f.mu.Unlock()
	if gone {
		f.invalidate(n)
	} else {
		f.stat(n, altered, false)
	}
	return nil
}

func (f *FS) isEmpty(path string) error {
	infos, err := f.fs.ReadDir(path)
	if err != nil {
		return errno(err)
	}
	if len(infos) > 0 {
		return syscall.ENOTEMPTY
	}
	return nil
}
