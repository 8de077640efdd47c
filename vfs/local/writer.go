package local

import (
	"crypto/rand"
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// The daemon's thread writes data through the daemon's descriptor, after the caller's rights were
// checked. In two cases the kernel decides by the identity of the thread, and then the thread has
// to act as the caller: for the set-gid bit without group execution (below), and for a file
// system's reserved blocks (reserve.go).

// markOnly reports whether a file has the set-gid bit without group execution. The bit then
// grants nothing: it marks the file for mandatory locking. The kernel clears it when the file is
// written or its owner changes, unless the writer may set it: a member of the file's group, or
// user 0 with CAP_FSETID.
func markOnly(mode uint32) bool {
	return mode&unix.S_IFMT == unix.S_IFREG && mode&(unix.S_ISGID|unix.S_IXGRP) == unix.S_ISGID
}

// keepsMark reports whether a write by c keeps the set-gid bit of a file for which markOnly holds.
// User 0 keeps it although the daemon has no CAP_FSETID (see DropCapabilities), because user 0 may
// be in any group.
func keepsMark(c *vfs.Cred, st *unix.Stat_t) bool { return c.UID == 0 || member(c, st.Gid) }

// writesAs returns the identity for a write by c of the given number of bytes to a file with
// attributes st, or for a truncation (bytes 0). nil means the daemon's own identity.
func (fs *FS) writesAs(c *vfs.Cred, st *unix.Stat_t, bytes int) *vfs.Cred {
	switch {
	case !CanSwitch():
		return nil // every call acts with the daemon's identity
	case markOnly(st.Mode) && keepsMark(c, st):
		return &vfs.Cred{UID: c.UID, GID: st.Gid, Groups: c.Groups}
	case bytes > 0 && c.UID != fs.self.uid && fs.nearsReserve(bytes):
		return c
	}
	return nil
}

// storeAs calls store with c's identity. It is called only if op.Try is not set.
func (fs *FS) storeAs(c *vfs.Cred, op *vfs.Op, fd int, offset int64, data [][]byte) (done int, err error) {
	err = fs.as(c, func() (err error) {
		done, err = fs.store(op, fd, offset, data)
		return err
	})
	return done, err
}

// asWriter calls the function in its last argument with the identity c, which writesAs returned.
// If c is nil, the daemon's own identity is used.
func (fs *FS) asWriter(c *vfs.Cred, call func() error) error {
	if c == nil {
		return call()
	}
	return fs.as(c, call)
}

// clearSetID clears the set-id bits that the kernel would clear if c itself wrote to the file. The
// last argument holds the file's attributes before the write. The call is needed if the process
// still has CAP_FSETID (see DropCapabilities), because the kernel then keeps the bits.
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

// restoreSetID sets the set-id bits again that the kernel cleared when user 0 allocated or freed
// storage or copied a range. For a local program of user 0, which has CAP_FSETID, the kernel does
// not clear them. Nor does it for Linux's NFS server. The caller holds inode.modes.
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
		_ = fs.as(&vfs.Cred{GID: st.Gid}, chmod) // a member of the file's group may set the bit
		return
	}
	_ = chmod()
}

// ftruncate sets the size of fd's file on behalf of c. st holds the file's attributes.
func (fs *FS) ftruncate(c *vfs.Cred, fd int, st *unix.Stat_t, size int64) error {
	return fs.asWriter(fs.writesAs(c, st, 0), func() error {
		return uninterrupted(func() error { return unix.Ftruncate(fd, size) })
	})
}

// newVerifier changes the verifier. The new verifier tells clients that data which they wrote and
// did not commit may be lost.
func (fs *FS) newVerifier() {
	var b [8]byte
	for {
		rand.Read(b[:])
		if v := binary.BigEndian.Uint64(b[:]); v != 0 && v != fs.verifier.Swap(v) {
			return
		}
	}
}

// Verifier implements vfs.FileSystem.
func (fs *FS) Verifier() (v [8]byte) {
	binary.BigEndian.PutUint64(v[:], fs.verifier.Load())
	return v
}
