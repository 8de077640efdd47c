package local

import (
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// ext2, ext3, ext4 and f2fs keep blocks in reserve for user 0. The kernel checks the thread that
// writes. That is the daemon's thread, usually of user 0, so clients could fill the reserve. If a
// thread writes as the caller, the kernel enforces the reserve, but the switch costs tens of
// microseconds. So the daemon writes as the caller only when the free space above the reserve is
// low.

// A reserve tracks the space that is free before a file system's reserve begins.
type reserve struct {
	// left is how many bytes may be written until lookAtReserve has to be called again.
	left atomic.Int64
}

const (
	// nearReserve is the free space, in bytes, below which the reserve counts as near. It is more
	// than writes under way may take, because statfs does not include those. On a small file
	// system, half of its size is near.
	nearReserve = 256 << 20
	// farReserve bounds the bytes written between two looks. The sweeper also looks every second,
	// because others write as well.
	farReserve = 1 << 30
	// roundUp is the space that a write may take beyond its bytes: two partly filled blocks.
	roundUp = 2 * 4096
)

// nearsReserve reports whether writing so many bytes may reach the reserve.
func (fs *FS) nearsReserve(bytes int) bool {
	if !fs.kind.reserves {
		return false
	}
	return fs.reserve.left.Add(-int64(bytes)-roundUp) < 0 && fs.lookAtReserve()
}

// lookAtReserve asks the file system for its free space and reports whether the reserve is near.
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
