package memfs

import (
	"sync/atomic"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// opens counts how often a node is open. Crash sets node.opens to nil. So if file.opens differs
// from node.opens, the file was opened before the Crash, and its calls fail with ESTALE.
type opens struct{ n int }

// file implements vfs.File.
type file struct {
	fs     *FS
	node   *node
	opens  *opens
	access vfs.OpenAccess
	closed atomic.Bool
}

var _ vfs.Opener = (*FS)(nil)

// Open implements vfs.Opener.
func (f *FS) Open(op *vfs.Op, h vfs.Handle, access vfs.OpenAccess) (vfs.File, error) {
	if err := f.enter(op, Open); err != nil {
		return nil, err
	}
	defer f.leave()
	n, err := f.lock(h)
	if err != nil {
		return nil, err
	}
	defer n.mu.Unlock()
	if err := mayOpen(op.Cred, &n.attr, access); err != nil {
		return nil, err
	}
	return &file{fs: f, node: n, opens: n.open(), access: access}, nil
}

// open records that n is open once more, and returns the counter. The caller holds n.mu.
func (n *node) open() *opens {
	if n.opens == nil {
		n.opens = new(opens)
	}
	n.opens.n++
	return n.opens
}

// closeNode undoes one call of n.open; o is the counter that n.open returned. The caller holds
// n.mu.
func (f *FS) closeNode(n *node, o *opens) {
	if n.opens != o {
		return // a Crash has ended this open already
	}
	if o.n--; o.n > 0 {
		return
	}
	n.opens = nil
	if n.attr.Nlink == 0 {
		f.forget(n)
	}
}

func mayOpen(c *vfs.Cred, a *vfs.Attr, access vfs.OpenAccess) error {
	switch {
	case a.Type == vfs.Directory:
		return syscall.EISDIR
	case a.Type == vfs.Symlink:
		return syscall.ELOOP
	case a.Type != vfs.Regular, access&(vfs.OpenRead|vfs.OpenWrite) == 0:
		return syscall.EINVAL
	case access&vfs.OpenOwner != 0 && c.UID == a.UID:
		return nil
	case access&vfs.OpenRead != 0 && !may(c, a, mayRead) && !may(c, a, mayExec),
		access&vfs.OpenWrite != 0 && !may(c, a, mayWrite):
		return syscall.EACCES
	}
	return nil
}

// f.is(access) returns nil if f is open for that access, and the error otherwise. f.is(0) returns
// nil if f is open at all. The caller holds the node's lock.
func (f *file) is(access vfs.OpenAccess) error {
	switch {
	case f.closed.Load(), access != 0 && f.access&access == 0:
		return syscall.EBADF
	case f.node.gone || f.node.opens != f.opens:
		return syscall.ESTALE // a Crash has ended this open
	}
	return nil
}

// lock locks the node. It returns an error if f is not open for the given access.
func (f *file) lock(access vfs.OpenAccess) error {
	f.node.mu.Lock()
	if err := f.is(access); err != nil {
		f.node.mu.Unlock()
		return err
	}
	return nil
}

// Read implements vfs.File.
func (f *file) Read(op *vfs.Op, offset uint64, buf []byte, a *vfs.Attr) (n int, eof bool, err error) {
	if err := f.fs.enter(op, Read); err != nil {
		return 0, false, err
	}
	defer f.fs.leave()
	f.node.mu.RLock()
	if err := f.is(vfs.OpenRead); err != nil {
		f.node.mu.RUnlock()
		return 0, false, err
	}
	*a = f.node.attr
	n, eof = f.fs.read(f.node, offset, buf, a)
	return n, eof, nil
}

// Write implements vfs.File.
func (f *file) Write(op *vfs.Op, offset uint64, data [][]byte, stable vfs.Stability) (n int, done vfs.Stability, ch vfs.Change, err error) {
	if err := f.fs.enter(op, Write); err != nil {
		return 0, 0, ch, err
	}
	defer f.fs.leave()
	if err := f.lock(vfs.OpenWrite); err != nil {
		return 0, 0, ch, err
	}
	defer f.node.mu.Unlock()
	ch = f.node.before()
	defer f.node.after(&ch)
	n, done, err = f.fs.write(f.node, offset, data, stable)
	return n, done, ch, err
}

// Commit implements vfs.File.
func (f *file) Commit(op *vfs.Op, offset uint64, count uint32) (ch vfs.Change, err error) {
	if err := f.fs.enter(op, Commit); err != nil {
		return ch, err
	}
	defer f.fs.leave()
	if err := f.lock(0); err != nil {
		return ch, err
	}
	defer f.node.mu.Unlock()
	ch = f.node.before()
	defer f.node.after(&ch)
	return ch, f.fs.syncRange(f.node, offset, count)
}

// SetSize implements vfs.File.
func (f *file) SetSize(op *vfs.Op, size uint64) (ch vfs.Change, err error) {
	if err := f.fs.enter(op, SetAttr); err != nil {
		return ch, err
	}
	defer f.fs.leave()
	if err := f.lock(vfs.OpenWrite); err != nil {
		return ch, err
	}
	defer f.node.mu.Unlock()
	ch = f.node.before()
	defer f.node.after(&ch)
	if size > maxFileSize {
		return ch, syscall.EFBIG
	}
	f.fs.set(op.Cred, f.node, &vfs.SetAttr{SetSize: true, Size: size}, f.fs.now())
	return ch, nil
}

// Close implements vfs.File.
func (f *file) Close() {
	if f.closed.Swap(true) {
		return
	}
	f.node.mu.Lock()
	defer f.node.mu.Unlock()
	f.fs.closeNode(f.node, f.opens)
}
