package billy

import (
	"cmp"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

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
	case old != nil:
		if err := f.mayReplace(n, old); err != nil {
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

// mayReplace returns nil if n may be renamed over old, and the error otherwise.
func (f *FS) mayReplace(n, old *node) error {
	switch {
	case n.kind == vfs.Directory && old.kind != vfs.Directory:
		return syscall.ENOTDIR
	case n.kind != vfs.Directory && old.kind == vfs.Directory:
		return syscall.EISDIR
	}
	return f.empty(old)
}

// above reports whether n is the directory d or an ancestor of d.
func (n *node) above(d *node) bool {
	for n != d && len(d.links) > 0 {
		d = d.links[0].dir
	}
	return n == d
}
