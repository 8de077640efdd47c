package local

import (
	"encoding/binary"
	"hash/fnv"

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

// fsid is the identity of the file system with device number dev, which fd is on.
func (fs *FS) fsid(fd int, dev uint64) uint64 {
	if v, ok := fs.fsids.Load(dev); ok {
		return v.(uint64)
	}
	var id uint64
	var s unix.Statfs_t
	if unix.Fstatfs(fd, &s) == nil {
		id = uint64(uint32(s.Fsid.Val[0]))<<32 | uint64(uint32(s.Fsid.Val[1]))
	}
	if id == 0 {
		id = dev
	}
	if fs.cfg.FSID != 0 {
		id = mix(fs.cfg.FSID, id)
	}
	fs.fsids.Store(dev, id)
	return id
}

func mix(a, b uint64) uint64 {
	h := fnv.New64a()
	h.Write(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, a), b))
	return h.Sum64()
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
