package billy

import (
	"errors"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Rename implements vfs.FileSystem.
func (f *FS) Rename(op *vfs.Op, fromDir vfs.Handle, fromName []byte, toDir vfs.Handle, toName []byte) (from, to vfs.Change, err error) {
	if op.Try {
		return from, to, vfs.ErrWouldBlock
	}
	f.calls.Lock()
	defer f.calls.Unlock()
	a, err := f.inDir(fromDir, fromName, &from)
	if a == nil {
		return from, to, err
	}
	b, err2 := f.inDir(toDir, toName, &to)
	if err == nil {
		err = err2
	}
	did := looked
	if err == nil && b != nil {
		did, err = f.move(a, string(fromName), b, string(toName))
	}
	if a.kind == vfs.Directory {
		f.namesChanged(a, &from, did)
	}
	switch {
	case b == nil:
	case a == b:
		to = from
	case b.kind == vfs.Directory:
		f.namesChanged(b, &to, did)
	}
	return from, to, err
}

// move renames, after it has refused what POSIX refuses: not every billy file
// system does.
func (f *FS) move(a *node, fromName string, b *node, toName string) (done, error) {
	if isDot(fromName) || isDot(toName) {
		return looked, syscall.EINVAL
	}
	n, _, err := f.step(a, fromName)
	if err != nil {
		return looked, err
	}
	if n.kind == vfs.Directory && f.above(n, b) {
		return looked, syscall.EINVAL
	}
	old, _, err := f.step(b, toName)
	if err != nil && !errors.Is(err, syscall.ENOENT) {
		return looked, err
	}
	if old == n {
		return looked, nil
	}
	from, err := f.pathIn(a, fromName)
	if err != nil {
		return looked, err
	}
	to, err := f.pathIn(b, toName)
	if err != nil {
		return looked, err
	}
	if old != nil {
		if err := f.mayReplace(n, old, to); err != nil {
			return looked, err
		}
		f.open.drop(old)
	}
	// An open file may know its path.
	if n.kind == vfs.Directory {
		f.open.dropAll()
	} else {
		f.open.drop(n)
	}
	if err := f.rename(from, to, old); err != nil {
		return looked, err
	}
	f.mu.Lock()
	f.detach(b, toName)
	// Both names for a moment, so that n does not go with its last.
	f.attach(n, b, toName)
	f.detach(a, fromName)
	replaced := old != nil && len(old.links) == 0
	f.mu.Unlock()
	f.invalidate(n)
	if replaced {
		f.invalidate(old)
	} else if old != nil {
		f.stat(old, altered, false)
	}
	f.stat(n, altered, false)
	return rewritten, nil
}

// rename renames from over to, which is old where that is not nil. Package os
// refuses to put a directory in the place of an empty one, and so do the file
// systems that are made of it: there the empty one goes first.
func (f *FS) rename(from, to string, old *node) error {
	err := errno(f.fs.Rename(from, to))
	if err == nil || old == nil || old.kind != vfs.Directory || !errors.Is(err, syscall.EEXIST) {
		return err
	}
	f.mu.Lock()
	mode := old.seen.mode.Perm()
	f.mu.Unlock()
	if err := f.fs.Remove(to); err != nil {
		return errno(err)
	}
	if err = errno(f.fs.Rename(from, to)); err != nil {
		// Whoever looks there finds what was there, though not the same.
		_ = f.fs.MkdirAll(to, mode)
	}
	return err
}

// mayReplace judges a rename of n over old, at path to.
func (f *FS) mayReplace(n, old *node, to string) error {
	switch {
	case n.kind == vfs.Directory && old.kind != vfs.Directory:
		return syscall.ENOTDIR
	case n.kind != vfs.Directory && old.kind == vfs.Directory:
		return syscall.EISDIR
	case old.kind == vfs.Directory:
		return f.isEmpty(to)
	}
	return nil
}

// above says that a is b or an ancestor of b.
func (f *FS) above(a, b *node) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for a != b {
		if len(b.links) == 0 {
			return false
		}
		b = b.links[0].dir
	}
	return true
}
