package billy

import (
	"errors"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Link implements vfs.FileSystem, where the file system has an nfs.UnixChange.
func (f *FS) Link(op *vfs.Op, h, dir vfs.Handle, name []byte, a *vfs.Attr) (ch vfs.Change, err error) {
	if op.Try {
		return ch, vfs.ErrWouldBlock
	}
	if f.unix == nil {
		return ch, vfs.ErrNotSupported
	}
	f.calls.Lock()
	defer f.calls.Unlock()
	n, err := f.look(h, a)
	if err != nil {
		return ch, err
	}
	d, err := f.inDir(dir, name, &ch)
	if err == nil {
		err = f.link(n, d, string(name))
	}
	if d != nil && d.kind == vfs.Directory {
		did := looked
		if err == nil {
			did = rewritten
		}
		f.namesChanged(d, &ch, did)
	}
	if err == nil {
		*a, err = f.stat(n, altered, false)
	}
	return ch, err
}

func (f *FS) link(n, d *node, name string) error {
	if n.kind == vfs.Directory {
		return syscall.EPERM
	}
	if isDot(name) {
		return syscall.EEXIST
	}
	if _, _, err := f.step(d, name); err == nil {
		return syscall.EEXIST
	} else if !errors.Is(err, syscall.ENOENT) {
		return err
	}
	path, err := f.path(n)
	if err != nil {
		return err
	}
	to, err := f.pathIn(d, name)
	if err != nil {
		return err
	}
	if err := f.fs.call(func() error { return f.unix.Link(path, to) }); err != nil {
		return errno(err)
	}
	f.mu.Lock()
	f.attach(n, d, name)
	f.mu.Unlock()
	return nil
}
