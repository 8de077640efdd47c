package local

import (
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// The kernel notes the time of a read in the inode, and RWF_NOWAIT does not keep
// it from that. On a file system with a log it waits for the disk where the log
// does. Most mounts have relatime: the time is noted at the first read after a
// change, and once a day. That read is left to a call that may block.
//
// An attempt knows of the changes that went through this FS or that it was asked
// about since. One that a process on the machine has just made is not noticed:
// the attempt may then wait with its thread, as long as the log does.

// quietReads say that reading a node changes nothing.
type quietReads struct {
	change atomic.Uint64 // while the node's Change is this
	until  atomic.Uint32 // and the sweeper's round is lower than this
}

const day = 24 * time.Hour

// readKind is what a mount does about the times of reads.
type readKind uint8

const (
	// relatime: noted after a change of the file, or a day after the last.
	relatime readKind = iota
	// noatime: never noted.
	noatime
	// strictatime: noted at each read.
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

// readsQuietly says that reading n changes nothing.
func (fs *FS) readsQuietly(n *node) bool {
	q := &n.quiet
	return fs.reads == noatime || n.inode.version.still(q.change.Load()) && fs.nodes.round.Load() < q.until.Load()
}

// wasRead notes what a read has left of n, which looked like st after it.
func (fs *FS) wasRead(n *node, st *look) {
	if fs.reads != relatime || !st.still {
		return
	}
	atime := time.Unix(st.Atim.Unix())
	left := day - fs.now().Sub(atime)
	if left <= 0 || !atime.After(time.Unix(st.Mtim.Unix())) || !atime.After(time.Unix(st.Ctim.Unix())) {
		return // the next one is noted as well
	}
	q := &n.quiet
	if q.change.Load() != st.change {
		q.change.Store(st.change)
	}
	if until := fs.nodes.round.Load() + uint32(left/sweepEvery); q.until.Load() != until {
		q.until.Store(until)
	}
}
