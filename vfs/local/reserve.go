package local

import (
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// ext2, ext3, ext4 and f2fs keep blocks in reserve for user 0. They look at the
// thread that writes, which is the daemon's and mostly user 0's: its clients
// would fill the reserve for it. A thread that acts as the caller has the
// kernel judge, but costs tens of microseconds. So it is used where the reserve
// may be near, and how near that is was looked at a moment ago.

// A reserve is what is known of the space before a file system's reserve.
type reserve struct {
	// left is how many bytes may be written until it has to be looked at
	// again.
	left atomic.Int64
}

const (
	// nearReserve is how much space before the reserve counts as near: more
	// than what writes that are under way may take, for those are not in what
	// the file system says. On a small file system half of it is near.
	nearReserve = 256 << 20
	// farReserve is what may be written between two looks at most. The sweeper
	// looks every second as well, for what others write.
	farReserve = 1 << 30
	// roundUp is what a write may take beyond its bytes: two blocks that it
	// fills in part.
	roundUp = 2 * 4096
)

// nearsReserve says whether writing bytes may come to the reserve.
func (fs *FS) nearsReserve(bytes int) bool {
	if !fs.kind.reserves {
		return false
	}
	return fs.reserve.left.Add(-int64(bytes)-roundUp) < 0 && fs.lookAtReserve()
}

// lookAtReserve says whether the reserve is near.
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
