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

// stamp returns the ctime as a Change value: nanoseconds since 1970, or 0 if the ctime is before.
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

// fill copies the attributes in l to a, with n's FSID and l's Change.
func (n *node) fill(a *vfs.Attr, l *look) {
	fillStat(a, &l.Stat_t)
	a.FSID, a.Change = n.fsid, l.change
}

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
