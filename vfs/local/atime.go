package local

import (
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A read makes the kernel write the time into the inode (atime), even with RWF_NOWAIT. On a file
// system with a log, this write waits for the disk whenever the log does. On most mounts
// (relatime) the kernel writes atime only at the first read after a change, and once a day. Such
// a read is left to a call that may block.
//
// An attempt knows the changes that went through this FS, or that an earlier look has shown. If
// another process changed the file a moment ago, the attempt does not know it; then the attempt
// and its thread wait as long as the log does.

// quietReads remembers that reading a node writes no atime.
type quietReads struct {
	change atomic.Uint64 // valid while this is the node's Change
	until  atomic.Uint32 // and while the sweeper's round is lower than this
}

const day = 24 * time.Hour

// readKind is the mount's rule for atime.
type readKind uint8

const (
	// relatime: written after a change of the file, or a day after the last write.
	relatime readKind = iota
	// noatime: never written.
	noatime
	// strictatime: written at each read.
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

// readsQuietly reports whether reading n leaves its atime unchanged.
func (fs *FS) readsQuietly(n *node) bool {
	q := &n.quiet
	return fs.reads == noatime || n.inode.version.still(q.change.Load()) && fs.nodes.round.Load() < q.until.Load()
}

// wasRead remembers whether further reads of n leave its atime unchanged. st is a look at n after
// a read.
func (fs *FS) wasRead(n *node, st *look) {
	if fs.reads != relatime || !st.still {
		return
	}
	atime := time.Unix(st.Atim.Unix())
	left := day - fs.now().Sub(atime)
	if left <= 0 || !atime.After(time.Unix(st.Mtim.Unix())) || !atime.After(time.Unix(st.Ctim.Unix())) {
		return // the next read writes atime as well
	}
	q := &n.quiet
	if q.change.Load() != st.change {
		q.change.Store(st.change)
	}
	if until := fs.nodes.round.Load() + uint32(left/sweepEvery); q.until.Load() != until {
		q.until.Store(until)
	}
}
