package local

import (
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

// stamp is a ctime as a Change value.
func stamp(st *unix.Stat_t) uint64 {
	if st.Ctim.Sec < 0 {
		return 0
	}
	return uint64(st.Ctim.Sec)*1e9 + uint64(st.Ctim.Nsec)
}

func fillStat(a *vfs.Attr, st *unix.Stat_t) {
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
	a.FileID = st.Ino
	a.Birth, a.HasBirth, a.MountedOn = vfs.Time{}, false, 0
	a.Atime, a.Mtime, a.Ctime = timeOf(st.Atim), timeOf(st.Mtim), timeOf(st.Ctim)
}

// fill tells n's attributes. The Change told is never lower than one that was
// told before.
func (n *node) fill(a *vfs.Attr, st *unix.Stat_t) {
	fillStat(a, st)
	a.FSID = n.fsid
	c := stamp(st)
	for {
		was := n.change.Load()
		if c <= was {
			c = was
			break
		}
		if n.change.CompareAndSwap(was, c) {
			if n.pushed.Load() {
				n.pushed.Store(false)
			}
			break
		}
	}
	a.Change = c
}

// fillChanged is fill after a change through us: the Change told is a new one,
// though the ctime may not be.
func (n *node) fillChanged(a *vfs.Attr, st *unix.Stat_t) {
	fillStat(a, st)
	a.FSID = n.fsid
	for {
		was := n.change.Load()
		c := max(stamp(st), was+1)
		if was == 0 {
			c = stamp(st)
		}
		if n.change.CompareAndSwap(was, c) {
			n.pushed.Store(c > stamp(st))
			a.Change = c
			return
		}
	}
}

// GetAttr implements vfs.FileSystem.
func (fs *FS) GetAttr(op *vfs.Op, h vfs.Handle, a *vfs.Attr) error {
	n, err := fs.node(op, h)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err = fs.look(op, n, &st); err == nil {
		n.fill(a, &st)
		if op.Want != 0 {
			err = fs.tellWanted(op, n, a)
		}
	}
	fs.giveBack(op, n)
	return err
}
