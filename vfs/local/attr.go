package local

import (
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

func typeOf(mode uint32) vfs.Type {
	switch mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return vfs.Directory
	case unix.S_IFLNK:
		return vfs.Symlink
	case unix.S_IFBLK:
		return vfs.BlockDevice
	case unix.S_IFCHR:
		return vfs.CharDevice
	case unix.S_IFSOCK:
		return vfs.Socket
	case unix.S_IFIFO:
		return vfs.FIFO
	}
	return vfs.Regular
}

func timeOf(t unix.Timespec) vfs.Time { return vfs.Time{Sec: t.Sec, Nsec: uint32(t.Nsec)} }

// stamp returns the ctime as a Change value: nanoseconds since 1970, or 0 if the ctime is before
// 1970.
func stamp(st *unix.Stat_t) uint64 {
	if st.Ctim.Sec < 0 {
		return 0
	}
	return uint64(st.Ctim.Sec)*1e9 + uint64(st.Ctim.Nsec)
}

func fill(a *vfs.Attr, fsid uint64, st *look) {
	a.Type = typeOf(st.Mode)
	a.Mode = st.Mode & 0o7777
	a.Nlink = uint32(st.Nlink)
	a.UID, a.GID = st.Uid, st.Gid
	a.Size = uint64(st.Size)
	a.Used = uint64(st.Blocks) * 512
	a.Major, a.Minor = 0, 0
	if a.Type == vfs.BlockDevice || a.Type == vfs.CharDevice {
		a.Major, a.Minor = unix.Major(st.Rdev), unix.Minor(st.Rdev)
	}
	a.FSID, a.FileID, a.Change = fsid, st.Ino, st.change
	a.Birth, a.HasBirth, a.MountedOn = vfs.Time{}, false, 0
	a.Atime, a.Mtime, a.Ctime = timeOf(st.Atim), timeOf(st.Mtim), timeOf(st.Ctim)
}

// fill copies the attributes in l to a, with n's FSID and l's Change.
func (n *node) fill(a *vfs.Attr, l *look) { fill(a, n.fsid, l) }

// GetAttr implements vfs.FileSystem.
func (fs *FS) GetAttr(op *vfs.Op, h vfs.Handle, a *vfs.Attr) error {
	n, err := fs.node(op, h)
	if err != nil {
		return err
	}
	var is look
	if err = fs.look(op, n, &is); err == nil {
		n.fill(a, &is)
		if op.Want != 0 {
			err = fs.tellWanted(op, n, a)
		}
	}
	fs.giveBack(op, n)
	return err
}

// A read makes the kernel update the file's atime, even with RWF_NOWAIT. On a file system with a
// log, this update waits for the disk whenever the log does. On most mounts (relatime) the kernel
// updates atime only at the first read after a change of the file, and once a day. A call with
// Op.Try makes no read that may update atime; it returns ErrWouldBlock.
//
// A call with Op.Try knows only the changes that were made through this FS or shown by attributes
// read earlier. If another process has just changed the file, the call does not know it, and the
// read may wait for the log.

// quietReads records that reads of a node do not update its atime for now.
type quietReads struct {
	change atomic.Uint64 // the record is valid only while this is the inode's Change
	until  atomic.Uint32 // and only while the number of the sweeper's round is lower than this
}

const day = 24 * time.Hour

// readKind is the mount's rule for atime.
type readKind uint8

const (
	// relatime: at a read, the kernel updates atime if the file has changed since the last update
	// of atime, or if that update was a day ago or more.
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

// readsQuietly reports whether it is known that a read of n leaves its atime unchanged.
func (fs *FS) readsQuietly(n *node) bool {
	q := &n.quiet
	return fs.reads == noatime || n.inode.version.still(q.change.Load()) && fs.nodes.round.Load() < q.until.Load()
}

// wasRead is called after a read of n. If further reads leave n's atime unchanged, it records that
// in n.quiet. st holds n's attributes after the read.
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
