package local

import (
	"io"
	"math"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Claims are the kernel's locks of open file descriptions (fcntl(2), F_OFD_SETLK). They conflict
// with locks of other descriptions and with POSIX locks of other processes, and end when the
// description is closed. Therefore each node with claims has one descriptor for nothing else, which
// all clients that lock the file share. After the last claim it stays open for the next one, and is
// closed like a descriptor for data: when it is idle for some seconds, or in the way (close_idle.go).

// nodeClaims holds the claims (see vfs.Claimer) on a node.
type nodeClaims struct {
	// mu is locked during each call of a Claimer method for this node.
	mu     sync.Mutex
	file   *openFile // the node's files.claims, with a reference, while there are claims
	claims vfs.Claims
	// ready is the node's files.claims, with a reference of Prompt, or nil.
	ready *openFile
}

var _ vfs.PromptClaimer = (*FS)(nil)

// claimable checks the range, and returns the node of the regular file h with a reference.
func (fs *FS) claimable(h vfs.Handle, start, length uint64) (*node, error) {
	if err := vfs.CheckRange(start, length); err != nil {
		return nil, err
	}
	var is look
	n, err := fs.lookAt(&daemonOp, h, &is)
	if err != nil {
		return nil, err
	}
	if err = n.regular(); err != nil {
		n.put()
	}
	return n, err
}

// Claim implements vfs.Claimer.
func (fs *FS) Claim(h vfs.Handle, start, length uint64, mode vfs.ClaimMode) error {
	for range tries {
		n, err := fs.claimable(h, start, length)
		if err != nil {
			return err
		}
		n.claims.mu.Lock()
		err = fs.claim(n, start, length, mode)
		n.claims.mu.Unlock()
		n.put()
		if err != errLetGo {
			return err
		}
	}
	return vfs.ErrDelay
}

// errLetGo: the cache dropped the node during a Claim. Claim then looks the node up again.
var errLetGo error = syscall.EREMCHG

// claim is Claim's body. The caller holds n.claims.mu.
func (fs *FS) claim(n *node, start, length uint64, mode vfs.ClaimMode) error {
	c := &n.claims
	if c.claims.None() {
		if mode == vfs.ClaimNone {
			return nil
		}
		if err := fs.beginClaims(n, mode); err != nil {
			return err
		}
	}
	err := setLock(c.file.fd, start, length, mode)
	if err == nil {
		err = c.claims.Set(start, length, mode)
	}
	if c.claims.None() {
		fs.endClaims(n)
	}
	return err
}

// beginClaims pins n's claims descriptor, which it opens if needed, and keeps n in the cache. mode is
// that of the first claim.
func (fs *FS) beginClaims(n *node, mode vfs.ClaimMode) error {
	if err := fs.holdings.pin(&fs.holdings.pinnedData); err != nil {
		return err
	}
	f, err := n.claims.ready, error(nil)
	if f != nil {
		f.refs.Add(1)
	} else {
		f, err = fs.fileToClaim(n, mode)
	}
	if err == nil {
		var there bool
		if there, err = fs.nodes.open(n); err == nil && !there {
			err = errLetGo
		}
		if err != nil {
			n.unclaim(f)
		}
	}
	if err != nil {
		fs.holdings.pinnedData.Add(-1)
		return err
	}
	n.refs.Add(1)
	n.claims.file = f
	return nil
}

// fileToClaim returns n's claims descriptor with a reference. If n has none that suits mode, fileToClaim
// opens n for reading and writing, because a write lock needs that. For a read claim on a file that
// cannot be written, it opens n for reading only.
func (fs *FS) fileToClaim(n *node, mode vfs.ClaimMode) (*openFile, error) {
	o := &n.files
	o.mu.Lock()
	f := o.claims
	if f != nil && (f.writable || mode == vfs.ClaimRead) {
		f.refs.Add(1)
		o.mu.Unlock()
		return f, nil
	}
	o.mu.Unlock()
	fs.makeRoomToOpen()
	const flags = unix.O_NONBLOCK | unix.O_LARGEFILE
	fd, err := fs.reopenWithRoom(n.fd, flags|unix.O_RDWR)
	writable := err == nil
	if err != nil && mode == vfs.ClaimRead && err != vfs.ErrDelay {
		fd, err = fs.reopenWithRoom(n.fd, flags|unix.O_RDONLY)
	}
	if err != nil {
		return nil, err
	}
	f = &openFile{fd: fd, writable: writable, count: &fs.holdings.data}
	f.refs.Store(2)
	f.count.Add(1)
	o.mu.Lock()
	was := o.claims // for reading only
	o.claims = f
	o.mu.Unlock()
	putFiles(was)
	return f, nil
}

// unclaim releases a reference from fileToClaim. From then on the descriptor is idle.
func (n *node) unclaim(f *openFile) {
	f.used.Store(n.fs.nodes.round.Load())
	f.put()
	n.fs.nodes.hasten(n)
}

// endClaims undoes beginClaims after the last claim is gone. It unlocks everything: the descriptor stays
// open, and even closing it may not be enough, because a process that another goroutine is starting has a
// copy of it until it executes its program.
func (fs *FS) endClaims(n *node) {
	f := n.claims.file
	n.claims.file = nil
	failed := setLock(f.fd, 0, vfs.ToEnd, vfs.ClaimNone) != nil
	n.unclaim(f)
	if failed {
		n.files.mu.Lock()
		f = n.files.takeClaimsLocked()
		n.files.mu.Unlock()
		putFiles(f) // the close unlocks, too
	}
	fs.holdings.pinnedData.Add(-1)
	fs.closeNode(n)
}

// takeClaimsLocked takes the claims descriptor out of o if there are no claims, and returns it with the
// reference of o; otherwise it returns nil. The caller holds o.mu.
func (o *openFiles) takeClaimsLocked() *openFile {
	f := o.claims
	if !f.idle() {
		return nil
	}
	o.claims = nil
	return f
}

// TestClaim implements vfs.Claimer.
func (fs *FS) TestClaim(h vfs.Handle, start, length uint64, mode vfs.ClaimMode) (c vfs.Claimed, found bool, err error) {
	n, err := fs.claimable(h, start, length)
	if err != nil {
		return c, false, err
	}
	defer n.put()
	if mode == vfs.ClaimNone {
		return c, false, nil
	}
	n.claims.mu.Lock()
	defer n.claims.mu.Unlock()
	f := n.claims.file
	if f == nil {
		// Without claims, any descriptor sees all locks of other processes.
		if f, err = fs.file(&daemonOp, n, false); err != nil {
			return c, false, err
		}
		defer f.put()
	}
	return testLock(f.fd, start, length, mode)
}

// DropClaims implements vfs.Claimer.
func (fs *FS) DropClaims(h vfs.Handle) {
	// If h has claims, its node is in the cache.
	if n := fs.nodes.cached(&h); n != nil {
		fs.dropClaims(n)
		n.put()
	}
}

func (fs *FS) dropClaims(n *node) {
	n.claims.mu.Lock()
	defer n.claims.mu.Unlock()
	n.dropClaimsLocked()
}

func (n *node) dropClaimsLocked() {
	c := &n.claims
	if !c.claims.None() {
		c.claims = vfs.Claims{}
		n.fs.endClaims(n)
	}
}

// promptClaims is a node whose claims change without waiting, between Prompt and Release. Its nodeClaims.mu is locked.
type promptClaims node

// tryOp is the Op of promptClaims, whose methods get none. They must not wait when they release a descriptor.
var tryOp = vfs.Op{Cred: daemonOp.Cred, Try: true}

// Prompt implements vfs.PromptClaimer. The kernel sets a lock of a local file system at once; on other file systems it
// asks a server or a program (fsKind.memory). An open may wait, so the node needs a descriptor already.
func (fs *FS) Prompt(h vfs.Handle, most vfs.ClaimMode) (vfs.PromptClaims, bool) {
	if !fs.kind.memory {
		return nil, false
	}
	n := fs.nodes.cached(&h)
	if n == nil {
		return nil, false
	}
	if n.typ == vfs.Regular && n.claims.mu.TryLock() {
		if n.readyToClaim(most) {
			return (*promptClaims)(n), true
		}
		n.claims.mu.Unlock()
	}
	fs.giveBack(&tryOp, n)
	return nil, false
}

// readyToClaim reports whether n has the descriptor that a claim in the mode most needs, and pins it. The caller holds
// n.claims.mu.
func (n *node) readyToClaim(most vfs.ClaimMode) bool {
	c, o := &n.claims, &n.files
	if !c.claims.None() || most == vfs.ClaimNone {
		return true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	f := o.claims
	if f == nil || most == vfs.ClaimWrite && !f.writable {
		return false
	}
	f.refs.Add(1)
	c.ready = f
	return true
}

// Claim implements vfs.Claimer.
func (p *promptClaims) Claim(_ vfs.Handle, start, length uint64, mode vfs.ClaimMode) error {
	n := (*node)(p)
	c := &n.claims
	if err := vfs.CheckRange(start, length); err != nil {
		return err
	}
	if c.claims.None() && mode != vfs.ClaimNone && (c.ready == nil || mode == vfs.ClaimWrite && !c.ready.writable) {
		return vfs.ErrWouldBlock
	}
	err := n.fs.claim(n, start, length, mode)
	if err == errLetGo {
		return vfs.ErrWouldBlock
	}
	return err
}

// TestClaim implements vfs.Claimer.
func (p *promptClaims) TestClaim(_ vfs.Handle, start, length uint64, mode vfs.ClaimMode) (c vfs.Claimed, found bool, err error) {
	if err = vfs.CheckRange(start, length); err != nil || mode == vfs.ClaimNone {
		return c, false, err
	}
	f := p.claims.file
	if f == nil {
		f = p.claims.ready
	}
	if f == nil {
		return c, false, vfs.ErrWouldBlock
	}
	return testLock(f.fd, start, length, mode)
}

// DropClaims implements vfs.Claimer.
func (p *promptClaims) DropClaims(vfs.Handle) { (*node)(p).dropClaimsLocked() }

// Release implements vfs.PromptClaims.
func (p *promptClaims) Release() {
	n := (*node)(p)
	fs, f := n.fs, n.claims.ready
	n.claims.ready = nil
	n.claims.mu.Unlock()
	if f != nil {
		f.used.Store(fs.nodes.round.Load())
		fs.giveBackFile(&tryOp, f)
		fs.nodes.hasten(n)
	}
	fs.giveBack(&tryOp, n)
}

// lockOf converts a range to the kernel's struct flock, whose last offset is 2^63-1. It returns
// false if the range begins after that offset: no other process can hold a lock there.
func lockOf(start, length uint64, mode vfs.ClaimMode) (unix.Flock_t, bool) {
	l := unix.Flock_t{Type: unix.F_UNLCK, Whence: io.SeekStart, Start: int64(start)}
	switch mode {
	case vfs.ClaimRead:
		l.Type = unix.F_RDLCK
	case vfs.ClaimWrite:
		l.Type = unix.F_WRLCK
	}
	if start <= math.MaxInt64 && length <= math.MaxInt64-start {
		l.Len = int64(length) // otherwise Len is 0, which means to the end of the file
	}
	return l, start <= math.MaxInt64
}

func setLock(fd int, start, length uint64, mode vfs.ClaimMode) error {
	l, ok := lockOf(start, length, mode)
	if !ok {
		return nil
	}
	return lockError(unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &l))
}

func testLock(fd int, start, length uint64, mode vfs.ClaimMode) (c vfs.Claimed, found bool, err error) {
	l, ok := lockOf(start, length, mode)
	if !ok {
		return c, false, nil
	}
	if err = lockError(unix.FcntlFlock(uintptr(fd), unix.F_OFD_GETLK, &l)); err != nil || l.Type == unix.F_UNLCK {
		return c, false, err
	}
	c = vfs.Claimed{Start: uint64(l.Start), Length: uint64(l.Len), Mode: vfs.ClaimRead}
	if l.Len == 0 {
		c.Length = vfs.ToEnd
	}
	if l.Type == unix.F_WRLCK {
		c.Mode = vfs.ClaimWrite
	}
	return c, true, nil
}

func lockError(err error) error {
	switch err {
	case syscall.EACCES:
		return syscall.EAGAIN // POSIX allows EACCES or EAGAIN for a conflict
	case syscall.EBADF:
		return syscall.EROFS // the descriptor was opened for reading only
	case syscall.ENOSYS, syscall.EOPNOTSUPP, syscall.EINVAL:
		return vfs.ErrNotSupported
	}
	return err
}
