package local

import (
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// ext2, ext3, ext4 and f2fs keep blocks in reserve for user 0. The kernel checks the user of the
// thread that writes. That is the daemon's thread, usually of user 0, so clients could use up the
// reserve. If a thread writes as the caller, the kernel enforces the reserve, but switching the
// thread costs tens of microseconds. So the daemon writes as the caller only when the free space
// above the reserve is low.

// A reserve tracks the free space above a file system's reserved blocks.
type reserve struct {
	// left is the number of bytes that may be written until lookAtReserve has to be called again.
	left atomic.Int64
}

const (
	// nearReserve is the free space above the reserve, in bytes, below which calls write as the
	// caller. It is more than the data of all running writes together, because statfs does not
	// count that data yet. On a file system smaller than 512 MiB, half of its size is used
	// instead.
	nearReserve = 256 << 20
	// farReserve is the largest number of bytes written between two calls of lookAtReserve. The
	// sweeper also calls lookAtReserve every second, because other programs write as well.
	farReserve = 1 << 30
	// roundUp is the space, in bytes, that a write may take beyond its data: two partly filled
	// blocks.
	roundUp = 2 * 4096
)

// nearsReserve reports whether a write of this number of bytes could use reserved blocks.
func (fs *FS) nearsReserve(bytes int) bool {
	if !fs.kind.reserves {
		return false
	}
	return fs.reserve.left.Add(-int64(bytes)-roundUp) < 0 && fs.lookAtReserve()
}

// lookAtReserve asks the file system for its free space and reports whether it is below
// nearReserve.
func (fs *FS) lookAtReserve() bool {
	var s unix.Statfs_t
	if unix.Fstatfs(fs.mount, &s) != nil {
		fs.reserve.left.Store(0)
		return true
	}
	unit := int64(max(s.Frsize, 1))
	near := min(nearReserve, int64(s.Blocks)*unit/2)
	left := int64(s.Bavail)*unit - near
	fs.reserve.left.Store(min(left, farReserve))
	return left <= 0
}
