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
// all clients that lock the file share.

// nodeClaims holds the claims (see vfs.Claimer) on a node.
type nodeClaims struct {
	// mu is locked during each call of a Claimer method for this node.
	mu     sync.Mutex
	fd     int // open while there are claims
	claims vfs.Claims
}

var _ vfs.Claimer = (*FS)(nil)

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
		if err := fs.openClaims(n, mode); err != nil {
			return err
		}
	}
	err := setLock(c.fd, start, length, mode)
	if err == nil {
		err = c.claims.Set(start, length, mode)
	}
	if c.claims.None() {
		fs.closeClaims(n)
	}
	return err
}

// openClaims opens n's claims descriptor and keeps n in the cache. mode is that of the first claim.
func (fs *FS) openClaims(n *node, mode vfs.ClaimMode) error {
	if err := fs.pinOne(&fs.stats.pinnedData); err != nil {
		return err
	}
	fd, err := fs.openToClaim(n, mode)
	if err == nil {
		var there bool
		if there, err = fs.nodes.open(n); err == nil && !there {
			err = errLetGo
		}
		if err != nil {
			unix.Close(fd)
		}
	}
	if err != nil {
		fs.stats.pinnedData.Add(-1)
		return err
	}
	n.refs.Add(1)
	n.claims.fd = fd
	fs.stats.open.Add(1)
	return nil
}

// openToClaim opens n for reading and writing, because a write lock needs that. For a read claim
// on a file that cannot be written, it opens n for reading only.
func (fs *FS) openToClaim(n *node, mode vfs.ClaimMode) (fd int, err error) {
	fs.makeRoomToOpen()
	const flags = unix.O_NONBLOCK | unix.O_LARGEFILE
	fd, err = fs.reopenWithRoom(n.fd, flags|unix.O_RDWR)
	if err != nil && mode == vfs.ClaimRead && err != vfs.ErrDelay {
		fd, err = fs.reopenWithRoom(n.fd, flags|unix.O_RDONLY)
	}
	return fd, err
}

// closeClaims undoes openClaims after the last claim is gone. It first unlocks everything, because
// closing the descriptor may not be enough: a process that another goroutine is starting has a copy
// of it until it executes its program.
func (fs *FS) closeClaims(n *node) {
	_ = setLock(n.claims.fd, 0, vfs.ToEnd, vfs.ClaimNone)
	unix.Close(n.claims.fd)
	fs.stats.open.Add(-1)
	fs.stats.pinnedData.Add(-1)
	fs.closeNode(n)
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
	fd := n.claims.fd
	if n.claims.claims.None() {
		// No claims descriptor exists. Any other descriptor sees all locks of other processes.
		f, err := fs.file(&daemonOp, n, false)
		if err != nil {
			return c, false, err
		}
		defer f.put()
		fd = f.fd
	}
	return testLock(fd, start, length, mode)
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
	c := &n.claims
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.claims.None() {
		c.claims = vfs.Claims{}
		fs.closeClaims(n)
	}
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
