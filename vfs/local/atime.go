package local

import (
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A read makes the kernel update the file's atime, even with RWF_NOWAIT. On a file system with a
// log, this update waits for the disk whenever the log does. On most mounts (relatime) the kernel
// updates atime only at the first read after a change of the file, and once a day. A call with
// Op.Try makes no read that may update atime; it returns ErrWouldBlock.
//
// A call with Op.Try knows only the changes that were made through this FS or shown by attributes
// read earlier. If another process has just changed the file, the call does not know it, and the
// read may wait for the log.

// quietReads records that reading a node does not update its atime.
type quietReads struct {
	change atomic.Uint64 // valid while this is the node's Change
	until  atomic.Uint32 // and while the sweeper's round is lower than this
}

const day = 24 * time.Hour

// readKind is the mount's rule for atime.
type readKind uint8

const (
	// relatime: the kernel writes atime after a change of the file, or a day after it last wrote
	// it.
	relatime readKind = iota
	// noatime: the kernel never writes atime.
	noatime
	// strictatime: the kernel writes atime at each read.
	strictatime
)

func readKindOf(s *unix.Statfs_t) readKind {
	switch {
	case s.Flags&(unix.ST_NOATIME|unix.ST_RDONLY) != 0:
		return noatime
	case s.Flags&unix.ST_RELATIME != 0:
		return relatime
	}
	return strictatime
}

// readsQuietly reports whether reading n is known to leave its atime unchanged.
func (fs *FS) readsQuietly(n *node) bool {
	q := &n.quiet
	return fs.reads == noatime || n.inode.version.still(q.change.Load()) && fs.nodes.round.Load() < q.until.Load()
}

// wasRead is called after a read of n. It records whether further reads leave n's atime unchanged.
// st holds n's attributes after the read.
func (fs *FS) wasRead(n *node, st *look) {
	if fs.reads != relatime || !st.still {
		return
	}
	atime := time.Unix(st.Atim.Unix())
	left := day - fs.now().Sub(atime)
	if left <= 0 || !atime.After(time.Unix(st.Mtim.Unix())) || !atime.After(time.Unix(st.Ctim.Unix())) {
		return // the next read updates atime, too
	}
	q := &n.quiet
	if q.change.Load() != st.change {
		q.change.Store(st.change)
	}
	if until := fs.nodes.round.Load() + uint32(left/sweepEvery); q.until.Load() != until {
		q.until.Store(until)
	}
}
