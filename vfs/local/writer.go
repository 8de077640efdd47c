package local

import (
	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Data is written through the daemon's descriptor, by the daemon's thread: what
// the caller may do was judged before. The kernel looks at the thread in two
// matters, and in those the thread has to be the caller's: a bit of the mode
// (below), and what a file system keeps in reserve (reserve.go).

// markOnly says that a file's set-gid bit is without group execution. It then
// grants nothing: it marks the file for mandatory locking. The kernel takes it
// away when the file is written to or given away, but for those that may set
// it: members of the file's group, and a user 0 with CAP_FSETID.
func markOnly(mode uint32) bool {
	return mode&unix.S_IFMT == unix.S_IFREG && mode&(unix.S_ISGID|unix.S_IXGRP) == unix.S_ISGID
}

// keepsMark says that c's writes leave a set-gid bit of that kind. The daemon
// has no CAP_FSETID (see DropCapabilities), but user 0 is in any group that it
// likes.
func keepsMark(c *vfs.Cred, st *unix.Stat_t) bool { return c.UID == 0 || member(c, st.Gid) }

// writesAs returns the identity in which bytes are to be written for c to the
// file that looks like st, or which may be cut to no bytes; nil for the
// daemon's own.
func (fs *FS) writesAs(c *vfs.Cred, st *unix.Stat_t, bytes int) *vfs.Cred {
	switch {
	case !CanSwitch():
		return nil // every caller is the daemon
	case markOnly(st.Mode) && keepsMark(c, st):
		return &vfs.Cred{UID: c.UID, GID: st.Gid, Groups: c.Groups}
	case bytes > 0 && c.UID != fs.self.uid && fs.nearsReserve(bytes):
		return c
	}
	return nil
}

// storeAs is store in another identity. op is not a Try.
func (fs *FS) storeAs(c *vfs.Cred, op *vfs.Op, fd int, offset int64, data [][]byte) (done int, err error) {
	err = fs.as(c, func() (err error) {
		done, err = fs.store(op, fd, offset, data)
		return err
	})
	return done, err
}

// asWriter makes a call in the identity that writesAs returned.
func (fs *FS) asWriter(c *vfs.Cred, call func() error) error {
	if c == nil {
		return call()
	}
	return fs.as(c, call)
}

// clearSetID takes off what the kernel takes off itself when c writes to the
// file that looked like was, unless the process has CAP_FSETID after all (see
// DropCapabilities).
func (fs *FS) clearSetID(c *vfs.Cred, fd int, was *unix.Stat_t) {
	var st unix.Stat_t
	if was.Mode&(unix.S_ISUID|unix.S_ISGID) == 0 || fstat(fd, &st) != nil {
		return
	}
	mode := st.Mode &^ unix.S_ISUID
	if !markOnly(was.Mode) || !keepsMark(c, was) {
		mode &^= unix.S_ISGID
	}
	if mode != st.Mode {
		_ = unix.Fchmod(fd, mode&0o7777)
	}
}

// restoreSetID puts back what the kernel took off when user 0 had storage reserved or given back,
// or a range copied: for a program of user 0 it takes nothing off there, as that has CAP_FSETID,
// and Linux's server takes nothing off either. inode.modes is held.
func (fs *FS) restoreSetID(fd int, was *unix.Stat_t) {
	var st unix.Stat_t
	if was.Mode&(unix.S_ISUID|unix.S_ISGID) == 0 || fstat(fd, &st) != nil {
		return
	}
	lost := was.Mode &^ st.Mode & (unix.S_ISUID | unix.S_ISGID)
	if lost == 0 {
		return
	}
	chmod := func() error { return unix.Fchmod(fd, (st.Mode|lost)&0o7777) }
	if CanSwitch() {
		_ = fs.as(&vfs.Cred{GID: st.Gid}, chmod) // the file's group may set the bit for it
		return
	}
	_ = chmod()
}

// ftruncate cuts or stretches the file of fd, which looks like st, for c.
func (fs *FS) ftruncate(c *vfs.Cred, fd int, st *unix.Stat_t, size int64) error {
	return fs.asWriter(fs.writesAs(c, st, 0), func() error {
		return uninterrupted(func() error { return unix.Ftruncate(fd, size) })
	})
}
