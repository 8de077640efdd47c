package local

import (
	"path"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// GetAttr implements vfs.FileSystem.
func (fs *FS) GetAttr(op *vfs.Op, h vfs.Handle, a *vfs.Attr) error {
	var is look
	n, err := fs.lookAt(op, h, &is)
	if err != nil {
		return err
	}
	n.fill(a, &is)
	if op.Want != 0 {
		err = fs.tellWanted(op, n, a)
	}
	fs.giveBack(op, n)
	return err
}

// tellWanted adds the attributes in op.Want to a, which holds the other attributes of n. Each of
// them needs a system call of its own.
func (fs *FS) tellWanted(op *vfs.Op, n *node, a *vfs.Attr) error {
	if op.Want&vfs.WantMountedOn != 0 {
		a.MountedOn = a.FileID
		if n == fs.root {
			if a.MountedOn = fs.covers.Load(); a.MountedOn == 0 {
				if op.Try {
					return vfs.ErrWouldBlock
				}
				a.MountedOn = mountedOn(fs.mount, fs.rootStat.Ino)
				fs.covers.Store(a.MountedOn)
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

// tellBirth adds the time of birth of name in dir to a, if name is still the file with a's inode
// number.
func tellBirth(dir int, name string, flags int, a *vfs.Attr) {
	var sx unix.Statx_t
	err := unix.Statx(dir, name, flags|unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_INO|unix.STATX_BTIME, &sx)
	if err == nil && sx.Mask&unix.STATX_BTIME != 0 && sx.Ino == a.FileID {
		a.Birth, a.HasBirth = vfs.Time{Sec: sx.Btime.Sec, Nsec: sx.Btime.Nsec}, true
	}
}

// mountedOn returns the inode number of the directory that the mount of fd covers. fd is an open
// directory, and own is its inode number. If fd is not the top of a mount, or the covered directory
// cannot be found, mountedOn returns own. Only a listing of its parent shows the covered directory.
func mountedOn(fd int, own uint64) uint64 {
	on, top := mountOf(fd)
	if !top || on.Point == "/" {
		return own // the root has no parent directory
	}
	above, err := unix.Openat(fd, "..", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return own
	}
	defer unix.Close(above)
	if ino, ok := numberIn(above, path.Base(on.Point)); ok {
		return ino
	}
	return own
}

// numberIn returns the inode number of name in the listing of the open directory dir.
func numberIn(dir int, name string) (ino uint64, ok bool) {
	buf := direntBuffers.Get().(*[]byte)
	defer direntBuffers.Put(buf)
	for e := range dirents(dir, *buf) {
		if string(e.name) == name {
			return e.ino, true
		}
	}
	return 0, false
}
