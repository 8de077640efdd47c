package memfs

import (
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Link implements vfs.FileSystem.
func (f *FS) Link(op *vfs.Op, h, dir vfs.Handle, name []byte, a *vfs.Attr) (ch vfs.Change, err error) {
	if err := f.enter(op, Link); err != nil {
		return ch, err
	}
	defer f.leave()
	n, err := f.find(h)
	if err != nil {
		return ch, err
	}
	d, err := f.lockDir(dir)
	if err != nil {
		return ch, err
	}
	defer d.mu.Unlock()
	ch = d.before()
	defer d.after(&ch)
	// Refuse a directory before locking n: n may be d itself, which is locked already, or an
	// ancestor of d, which has to be locked before d.
	if n.dir != nil {
		return ch, syscall.EPERM
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.gone || n.attr.Nlink == 0 {
		return ch, syscall.ESTALE
	}
	*a = n.attr
	if err := vfs.CheckName(name, maxName); err != nil {
		return ch, err
	}
	if !may(op.Cred, &d.attr, mayExec) {
		return ch, syscall.EACCES
	}
	if vfs.IsDot(name) || d.dir.get(name) != nil {
		return ch, syscall.EEXIST
	}
	if !may(op.Cred, &d.attr, mayWrite) {
		return ch, syscall.EACCES
	}
	if n.attr.Nlink >= maxLink {
		return ch, syscall.EMLINK
	}
	now := f.now()
	n.attr.Nlink++
	n.touch(now, false)
	d.dir.put(name, n)
	d.renamed(now)
	*a = n.attr
	return ch, nil
}
