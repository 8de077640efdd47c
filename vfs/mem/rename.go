package memfs

import (
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Rename implements vfs.FileSystem.
func (f *FS) Rename(op *vfs.Op, fromDir vfs.Handle, fromName []byte, toDir vfs.Handle, toName []byte) (from, to vfs.Change, err error) {
	if err := f.enter(op, Rename); err != nil {
		return from, to, err
	}
	defer f.leave()
	a, b, unlock, err := f.lockTwo(fromDir, toDir)
	if err != nil {
		return from, to, err
	}
	defer unlock()
	from, to = a.before(), b.before()
	defer a.after(&from)
	defer b.after(&to)
	return from, to, f.move(op, a, fromName, b, toName)
}

// lockTwo locks two directories, which may be the same. If they differ, it also locks FS.renames.
// The caller calls unlock.
func (f *FS) lockTwo(ah, bh vfs.Handle) (a, b *node, unlock func(), err error) {
	if ah == bh {
		a, err = f.lockDir(ah)
		if err != nil {
			return nil, nil, nil, err
		}
		return a, a, a.mu.Unlock, nil
	}
	f.renames.Lock()
	a, err = f.find(ah)
	if err == nil {
		b, err = f.find(bh)
	}
	if err == nil && (a.dir == nil || b.dir == nil) {
		err = syscall.ENOTDIR
	}
	if err != nil {
		f.renames.Unlock()
		return nil, nil, nil, err
	}
	upper, lower := a, b
	if above(b, a) {
		upper, lower = b, a
	}
	upper.mu.Lock()
	lower.mu.Lock()
	unlock = func() {
		lower.mu.Unlock()
		upper.mu.Unlock()
		f.renames.Unlock()
	}
	if a.gone || b.gone {
		unlock()
		return nil, nil, nil, syscall.ESTALE
	}
	return a, b, unlock, nil
}

// above reports whether a is b or an ancestor of b. The caller holds FS.renames.
func above(a, b *node) bool {
	for a != b {
		if b == b.dir.parent {
			return false
		}
		b = b.dir.parent
	}
	return true
}

// move does a rename from directory a to directory b, which are locked.
func (f *FS) move(op *vfs.Op, a *node, fromName []byte, b *node, toName []byte) error {
	for _, name := range [...][]byte{fromName, toName} {
		if err := vfs.CheckName(name, maxName); err != nil {
			return err
		}
		if vfs.IsDot(name) {
			return syscall.EINVAL
		}
	}
	if !may(op.Cred, &a.attr, mayExec) || !may(op.Cred, &b.attr, mayExec) {
		return syscall.EACCES
	}
	n := a.dir.get(fromName)
	if n == nil {
		return syscall.ENOENT
	}
	old := b.dir.get(toName)
	if a != b {
		// Check this before locking n and old: they may be b or a, which are locked already.
		if n.dir != nil && above(n, b) {
			return syscall.EINVAL
		}
		if old != nil && old.dir != nil && above(old, a) {
			if n.dir == nil {
				return syscall.EISDIR
			}
			return syscall.ENOTEMPTY
		}
	}
	if n == old {
		return nil // POSIX: if both names belong to one file, both stay
	}
	first, second := n, old
	if old != nil && old.attr.FileID < n.attr.FileID {
		first, second = old, n
	}
	first.mu.Lock()
	defer first.mu.Unlock()
	if second != nil {
		second.mu.Lock()
		defer second.mu.Unlock()
	}
	if err := mayMove(op.Cred, a, n, b, old); err != nil {
		return err
	}
	f.moved(a, fromName, n, b, toName, old)
	return nil
}

// mayMove checks a rename of n from a to b; old is the file that it replaces, or nil.
func mayMove(c *vfs.Cred, a, n, b, old *node) error {
	if err := mayUnlink(c, &a.attr, &n.attr); err != nil {
		return err
	}
	if !may(c, &b.attr, mayWrite) {
		return syscall.EACCES
	}
	if n.dir != nil && a != b && !may(c, &n.attr, mayWrite) {
		return syscall.EACCES // the entry ".." of n changes
	}
	if old == nil {
		if n.dir != nil && a != b && b.attr.Nlink >= maxLink {
			return syscall.EMLINK
		}
		return nil
	}
	if err := mayUnlink(c, &b.attr, &old.attr); err != nil {
		return err
	}
	switch {
	case n.dir != nil && old.dir == nil:
		return syscall.ENOTDIR
	case n.dir == nil && old.dir != nil:
		return syscall.EISDIR
	case old.dir != nil && len(old.dir.names) > 0:
		return syscall.ENOTEMPTY
	}
	return nil
}

func (f *FS) moved(a *node, fromName []byte, n, b *node, toName []byte, old *node) {
	now := f.now()
	a.dir.remove(fromName)
	b.dir.put(toName, n)
	if old != nil {
		if old.dir != nil {
			b.attr.Nlink--
		}
		f.drop(old, now)
	}
	if n.dir != nil && a != b {
		a.attr.Nlink--
		b.attr.Nlink++
		n.dir.parent = b
	}
	n.touch(now, false)
	a.renamed(now)
	if a != b {
		b.renamed(now)
	}
}
