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

// alter runs the function do, which changes the file, as a call of m. It returns an error if f is
// not open for the given access.
func (f *file) alter(op *vfs.Op, m Method, access vfs.OpenAccess, do func(n *node) error) (ch vfs.Change, err error) {
	if err := f.fs.enter(op, m); err != nil {
		return ch, err
	}
	defer f.fs.leave()
	if err := f.lock(access); err != nil {
		return ch, err
	}
	defer f.node.mu.Unlock()
	return f.node.alter(do)
}

// Write implements vfs.File.
func (f *file) Write(op *vfs.Op, offset uint64, data [][]byte, stable vfs.Stability) (n int, done vfs.Stability, ch vfs.Change, err error) {
	ch, err = f.alter(op, Write, vfs.OpenWrite, func(nd *node) (err error) {
		n, done, err = f.fs.write(nd, offset, data, stable)
		return err
	})
	return n, done, ch, err
}

// Commit implements vfs.File.
func (f *file) Commit(op *vfs.Op, offset uint64, count uint32) (vfs.Change, error) {
	return f.alter(op, Commit, 0, func(n *node) error { return f.fs.syncRange(n, offset, count) })
}

// SetSize implements vfs.File.
func (f *file) SetSize(op *vfs.Op, size uint64) (vfs.Change, error) {
	return f.alter(op, SetAttr, vfs.OpenWrite, func(n *node) error {
		if size > maxFileSize {
			return syscall.EFBIG
		}
		f.fs.set(op.Cred, n, &vfs.SetAttr{SetSize: true, Size: size}, f.fs.now())
		return nil
	})
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

// claims holds the claims on one file: own are those of this process, foreign those of another
// process that a test simulates.
type claims struct{ own, foreign vfs.Claims }

var _ vfs.PromptClaimer = (*FS)(nil)

// claimable returns the node of a regular file, locked and with claims allocated.
func (f *FS) claimable(h vfs.Handle) (*node, error) {
	n, err := f.lock(h)
	if err != nil {
		return nil, err
	}
	if err := n.isFile(); err != nil {
		n.mu.Unlock()
		return nil, err
	}
	if n.claims == nil {
		n.claims = new(claims)
	}
	return n, nil
}

// Claim implements vfs.Claimer.
func (f *FS) Claim(h vfs.Handle, start, length uint64, mode vfs.ClaimMode) error {
	n, err := f.claimable(h)
	if err != nil {
		return err
	}
	defer n.mu.Unlock()
	if err := claim(&n.claims.own, &n.claims.foreign, start, length, mode); err != nil {
		return err
	}
	f.claimed(n)
	return nil
}

func claim(own, others *vfs.Claims, start, length uint64, mode vfs.ClaimMode) error {
	if _, found, err := others.Against(start, length, mode); err != nil || found {
		if err == nil {
			err = syscall.EAGAIN
		}
		return err
	}
	return own.Set(start, length, mode)
}

// claimed is called after a change of n's claims. If n has got its first claim, claimed calls
// n.open; if n has lost its last, it undoes that. So a file with claims stays alive as if it were
// open. The caller holds n.mu.
func (f *FS) claimed(n *node) {
	switch none := n.claims == nil || n.claims.own.None(); {
	case !none && n.claimedBy == nil:
		n.claimedBy = n.open()
	case none && n.claimedBy != nil:
		o := n.claimedBy
		n.claimedBy = nil
		f.closeNode(n, o)
	}
}

// TestClaim implements vfs.Claimer.
func (f *FS) TestClaim(h vfs.Handle, start, length uint64, mode vfs.ClaimMode) (vfs.Claimed, bool, error) {
	n, err := f.claimable(h)
	if err != nil {
		return vfs.Claimed{}, false, err
	}
	defer n.mu.Unlock()
	return n.claims.foreign.Against(start, length, mode)
}

// DropClaims implements vfs.Claimer.
func (f *FS) DropClaims(h vfs.Handle) {
	n, err := f.claimable(h)
	if err != nil {
		return
	}
	defer n.mu.Unlock()
	n.claims.own = vfs.Claims{}
	f.claimed(n)
}

// Prompt implements vfs.PromptClaimer. No claim of an FS waits.
func (f *FS) Prompt(vfs.Handle, vfs.ClaimMode) (vfs.PromptClaims, bool) { return promptClaims{f}, true }

type promptClaims struct{ *FS }

// Release implements vfs.PromptClaims.
func (promptClaims) Release() {}

// ForeignClaim sets a claim as another process of the machine would. It is for tests. ClaimNone
// removes the claim.
func (f *FS) ForeignClaim(h vfs.Handle, start, length uint64, mode vfs.ClaimMode) error {
	n, err := f.claimable(h)
	if err != nil {
		return err
	}
	defer n.mu.Unlock()
	return claim(&n.claims.foreign, &n.claims.own, start, length, mode)
}
