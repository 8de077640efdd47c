package local

import (
	"path"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/internal/mountinfo"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// This file tells the attributes that fstat does not: they take a call each, and
// are told when they are wanted.

// tellWanted adds to a, which holds n's attributes, what op wants beside them.
func (fs *FS) tellWanted(op *vfs.Op, n *node, a *vfs.Attr) error {
	if op.Want&vfs.WantMountedOn != 0 {
		a.MountedOn = a.FileID
		if n == fs.root {
			var ok bool
			if a.MountedOn, ok = fs.covers.inode(fs, op.Try); !ok {
				return vfs.ErrWouldBlock
			}
		}
	}
	if op.Want&vfs.WantBirth != 0 {
		if op.Try && !fs.kind.memory {
			return vfs.ErrWouldBlock
		}
		tellBirth(n.fd, "", unix.AT_EMPTY_PATH, a)
	}
	return nil
}

// tellBirth adds the time of birth of the file with a's number that name in dir
// is, if it is that.
func tellBirth(dir int, name string, flags int, a *vfs.Attr) {
	var sx unix.Statx_t
	err := unix.Statx(dir, name, flags|unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_INO|unix.STATX_BTIME, &sx)
	if err == nil && sx.Mask&unix.STATX_BTIME != 0 && sx.Ino == a.FileID {
		a.Birth, a.HasBirth = vfs.Time{Sec: sx.Btime.Sec, Nsec: sx.Btime.Nsec}, true
	}
}

// hand emits an entry that is neither "." nor "..", with what is wanted. None of
// these is the root of a mount: such an entry has no attributes.
func (l *listing) hand(e *vfs.DirEntry) bool {
	if l.op.Want != 0 && e.HasAttr {
		if l.op.Want&vfs.WantMountedOn != 0 {
			e.Attr.MountedOn = e.Attr.FileID
		}
		if l.op.Want&vfs.WantBirth != 0 {
			tellBirth(l.dir.fd, string(e.Name), 0, &e.Attr)
		}
	}
	return l.emit(e)
}

// covered is the inode number of the directory that an FS's root is mounted on.
// It is found when it is first asked for, for the directory above is read for it.
type covered struct {
	once  sync.Once
	known atomic.Bool
	ino   uint64
}

// inode returns the number; false: it is not at hand.
func (c *covered) inode(fs *FS, try bool) (uint64, bool) {
	if !c.known.Load() {
		if try {
			return 0, false
		}
		c.once.Do(func() {
			c.ino = mountedOn(fs.mount, fs.rootStat.Ino)
			c.known.Store(true)
		})
	}
	return c.ino, true
}

// mountedOn is the inode number of the directory that fd, an open directory with
// the number own, is mounted on; own where fd is not the root of a mount, or
// nothing is seen of what is beneath. The kernel shows a covered directory's
// number in one place only, which is the listing of the directory above.
func mountedOn(fd int, own uint64) uint64 {
	var sx unix.Statx_t
	if unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &sx) != nil ||
		sx.Attributes_mask&sx.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0 {
		return own
	}
	all, err := mountinfo.Read()
	if err != nil {
		return own
	}
	m := mountinfo.Find(all, sx.Mnt_id)
	if m == nil || m.Point == "/" {
		return own // the top of all
	}
	above, err := unix.Openat(fd, "..", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return own
	}
	defer unix.Close(above)
	if ino, ok := numberIn(above, path.Base(m.Point)); ok {
		return ino
	}
	return own
}

// numberIn is the inode number that the listing of the open directory dir has for
// name.
func numberIn(dir int, name string) (ino uint64, ok bool) {
	buf := direntBuffers.Get().(*[]byte)
	defer direntBuffers.Put(buf)
	for {
		n, err := sysGetdents(dir, *buf)
		if err != nil || n == 0 {
			return 0, false
		}
		for e, rest := nextDirent((*buf)[:n]); e.name != nil; e, rest = nextDirent(rest) {
			if string(e.name) == name {
				return e.ino, true
			}
		}
	}
}
