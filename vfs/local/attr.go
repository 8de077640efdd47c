package local

import (
	"math"
	"path"
	"slices"
	"strconv"
	"syscall"

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
				a.MountedOn = fs.mountedOn()
				fs.covers.Store(a.MountedOn)
			}
		}
	}
	if op.Want&vfs.WantBirth != 0 {
		if op.Try && !fs.kind.memory {
			return vfs.ErrWouldBlock
		}
		tellBirth(n.fd, "", unix.AT_EMPTY_PATH, n.ino, a)
	}
	return nil
}

// tellBirth adds the time of birth of name in dir to a, if name still has the inode number ino.
func tellBirth(dir int, name string, flags int, ino uint64, a *vfs.Attr) {
	var sx unix.Statx_t
	err := sysStatx(dir, name, flags|unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_INO|unix.STATX_BTIME, &sx)
	if err == nil && sx.Mask&unix.STATX_BTIME != 0 && sx.Ino == ino {
		a.Birth, a.HasBirth = vfs.Time{Sec: sx.Btime.Sec, Nsec: sx.Btime.Nsec}, true
	}
}

// mountedOn returns the inode number of the directory that the mount at the root covers. If the root is
// not the top of a mount, or the covered directory cannot be found, mountedOn returns the root's own
// file ID. Only a listing of its parent shows the covered directory.
func (fs *FS) mountedOn() uint64 {
	own := fs.root.fileID
	on, top := fs.mountOfRoot()
	if !top || on.Point == "/" {
		return own // the root has no parent directory
	}
	above, err := again(func() (int, error) {
		return unix.Openat(fs.mount, "..", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return own
	}
	defer unix.Close(above)
	buf := direntBuffers.Get().(*[]byte)
	defer direntBuffers.Put(buf)
	for e := range dirents(above, *buf) {
		if string(e.name) == path.Base(on.Point) {
			return e.ino
		}
	}
	return own
}

// SetAttr implements vfs.FileSystem.
func (fs *FS) SetAttr(op *vfs.Op, h vfs.Handle, s *vfs.SetAttr, guard *vfs.Time) (vfs.Change, error) {
	var ch vfs.Change
	if fs.readOnly {
		return ch, syscall.EROFS
	}
	if op.Try {
		return ch, vfs.ErrWouldBlock
	}
	n, err := fs.node(op, h)
	if err != nil {
		return ch, err
	}
	defer n.put()
	m := n.mark()
	if err = checkOwners(s); err == nil {
		err = fs.setAttr(op, n, s, guard, &ch, false)
	}
	if err != nil {
		return ch, err
	}
	if s.IsZero() {
		return ch, nil
	}
	return ch, fs.syncer.durable(op, m)
}

// setAttr applies s to n. judged is true if s sets only the size and the caller has n open for
// writing; then setAttr checks no rights.
func (fs *FS) setAttr(op *vfs.Op, n *node, s *vfs.SetAttr, guard *vfs.Time, ch *vfs.Change, judged bool) error {
	if s.SetSize {
		if err := fs.syncer.makeRoomForData(op, n); err != nil {
			return err
		}
	}
	n.inode.mu.Lock()
	defer n.inode.mu.Unlock()
	var is look
	if err := fs.look(op, n, &is); err != nil {
		return err
	}
	var err error
	if guard != nil && *guard != timeOf(is.Ctim) {
		err = vfs.ErrNotSync
	} else {
		err = fs.maySetAttr(op, n, &is, s, judged)
	}
	if err != nil {
		n.unchanged(&is, ch)
		return err
	}
	c := n.before(&is, ch)
	err = fs.apply(op, n, &is.Stat_t, s)
	_ = c.after(!s.IsZero(), &is)
	return err
}

// checkOwners refuses the user and group IDs that mean "unchanged" to the kernel; no file has them.
func checkOwners(s *vfs.SetAttr) error {
	if s.SetUID && s.UID == noID || s.SetGID && s.GID == noID {
		return syscall.EINVAL
	}
	return nil
}

// maySetAttr predicts the kernel's decision on each part of s, so that no part is applied if the
// kernel would refuse another. The kernel still checks each part.
func (fs *FS) maySetAttr(op *vfs.Op, n *node, is *look, s *vfs.SetAttr, judged bool) error {
	c := op.Cred
	owner := c.UID == 0 || fs.identity.owns(c, &is.Stat_t)
	switch {
	case s.SetMode && !owner,
		s.SetUID && c.UID != 0 && !(owner && s.UID == is.Uid),
		s.SetGID && c.UID != 0 && !(owner && (s.GID == is.Gid || member(c, s.GID))),
		(s.AtimeHow == vfs.ClientTime || s.MtimeHow == vfs.ClientTime) && !owner:
		return syscall.EPERM
	}
	touch := s.AtimeHow == vfs.ServerTime || s.MtimeHow == vfs.ServerTime
	if s.SetSize {
		if err := n.regular(); err != nil {
			return err
		}
		if s.Size > math.MaxInt64 {
			return syscall.EFBIG
		}
		if judged {
			return nil
		}
		if err := fs.mayUseData(op, n, is, true); err != nil {
			return err
		}
		if f := n.held(true); f != nil {
			defer f.put()
			return fs.checkFlags(n, f)
		}
	} else if touch && !owner {
		return fs.mayUseData(op, n, is, true)
	}
	return nil
}

// apply makes the changes in an order in which none undoes another: truncation and a change of
// owner clear set-uid bits that the mode may set, and truncation sets mtime.
func (fs *FS) apply(op *vfs.Op, n *node, st *unix.Stat_t, s *vfs.SetAttr) error {
	if s.SetSize {
		if err := fs.truncate(op, n, st, int64(s.Size)); err != nil {
			return err
		}
	}
	keepsTimes := s.AtimeHow == vfs.KeepTime && s.MtimeHow == vfs.KeepTime
	if !s.SetMode && !s.SetUID && !s.SetGID && keepsTimes {
		return nil
	}
	c := *op.Cred
	if c.UID == 0 && fs.identity.canSwitch && (markOnly(st.Mode) || s.SetMode && s.Mode&unix.S_ISGID != 0) {
		// Without CAP_FSETID even root may keep or set set-gid only for a group that it is in.
		// Root may be in any group. So add the file's present group and its new one.
		c.Groups = append(slices.Clone(c.Groups), st.Gid)
		if s.SetGID {
			c.Groups = append(c.Groups, s.GID)
		}
	}
	uid, gid := noID, noID // these stay
	if s.SetUID {
		uid = s.UID
	}
	if s.SetGID {
		gid = s.GID
	}
	n.inode.modes.Lock()
	err := fs.identity.as(&c, func() error {
		if s.SetUID || s.SetGID {
			if err := uninterrupted(func() error { return unix.Fchownat(n.fd, "", int(uid), int(gid), unix.AT_EMPTY_PATH) }); err != nil {
				return err
			}
		}
		if s.SetMode && n.typ != vfs.Symlink { // a symlink has no mode to set on Linux
			return fs.chmod(n.fd, s.Mode&0o7777)
		}
		return nil
	})
	n.inode.modes.Unlock()
	if err != nil || keepsTimes {
		return err
	}
	times := [2]unix.Timespec{timeToSet(s.AtimeHow, s.Atime), timeToSet(s.MtimeHow, s.Mtime)}
	if owner := c.UID == 0 || fs.identity.owns(&c, st); !owner && times[0].Nsec != times[1].Nsec {
		// A caller that may write, but is not the owner, may set both times to now. The kernel
		// allows this only for both together. If the caller wants to set only one of them, the
		// daemon tries that with its own rights. If the daemon may not, both are set below.
		if err = utimens(n.fd, &times); err != syscall.EPERM {
			return err
		}
		times = [2]unix.Timespec{{Nsec: unix.UTIME_NOW}, {Nsec: unix.UTIME_NOW}}
	}
	// Set the times with the caller's identity. This works even if the code above gave the file to
	// another user: only root may do that, and root may set the times of any file.
	return fs.identity.as(op.Cred, func() error { return utimens(n.fd, &times) })
}

// truncate sets the size through the daemon's descriptor, because NFS lets the owner change the data
// whatever the mode, and the kernel would not open the file for writing as the owner.
func (fs *FS) truncate(op *vfs.Op, n *node, was *unix.Stat_t, size int64) error {
	f, err := fs.file(op, n, true)
	if err != nil {
		return err
	}
	defer f.put()
	err = fs.identity.asWriter(fs.writesAs(op.Cred, was, 0), func() error {
		return uninterrupted(func() error { return unix.Ftruncate(f.fd, size) })
	})
	if err != nil {
		return err
	}
	n.wrote()
	clearSetID(op.Cred, f.fd, was)
	return nil
}

func timeToSet(how vfs.TimeHow, t vfs.Time) unix.Timespec {
	switch how {
	case vfs.ServerTime:
		return unix.Timespec{Nsec: unix.UTIME_NOW}
	case vfs.ClientTime:
		return unix.Timespec{Sec: t.Sec, Nsec: int64(min(t.Nsec, 999_999_999))}
	}
	return unix.Timespec{Nsec: unix.UTIME_OMIT}
}

// chmod uses the name in /proc/self/fd, because chmod by an O_PATH descriptor needs Linux 6.6.
func (fs *FS) chmod(fd int, mode uint32) error {
	return uninterrupted(func() error { return unix.Fchmodat(fs.proc, strconv.Itoa(fd), mode, 0) })
}

func utimens(fd int, times *[2]unix.Timespec) error {
	return uninterrupted(func() error { return unix.UtimesNanoAt(fd, "", times[:], unix.AT_EMPTY_PATH) })
}
