package memfs

import (
	"slices"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Bits of a mode.
const (
	setUID = 0o4000
	setGID = 0o2000
	sticky = 0o1000

	mayRead  = 4
	mayWrite = 2
	mayExec  = 1

	groupExec = 0o010
	anyExec   = 0o111
)

func inGroup(c *vfs.Cred, gid uint32) bool {
	return c.GID == gid || slices.Contains(c.Groups, gid)
}

// may reports whether a's mode gives c all the rights in want (bits mayRead, mayWrite and
// mayExec).
func may(c *vfs.Cred, a *vfs.Attr, want uint32) bool {
	if c.UID == 0 {
		// Not even the superuser runs a file without an execute bit.
		return want&mayExec == 0 || a.Type == vfs.Directory || a.Mode&anyExec != 0
	}
	bits := a.Mode
	switch {
	case c.UID == a.UID:
		bits >>= 6
	case inGroup(c, a.GID):
		bits >>= 3
	}
	return bits&want == want
}

// mayData reports whether c has the rights in want to a regular file's data. It adds NFS's rules
// to those of may: the owner has all rights, and a caller with permission to execute may read (RFC
// 1813 §4.4).
func mayData(c *vfs.Cred, a *vfs.Attr, want uint32) bool {
	if c.UID == a.UID || may(c, a, want) {
		return true
	}
	return want == mayRead && may(c, a, mayExec)
}

// mayUnlink returns nil if c may remove victim from dir, and the error otherwise.
func mayUnlink(c *vfs.Cred, dir, victim *vfs.Attr) error {
	if !may(c, dir, mayWrite|mayExec) {
		return syscall.EACCES
	}
	if dir.Mode&sticky != 0 && c.UID != 0 && c.UID != dir.UID && c.UID != victim.UID {
		return syscall.EPERM
	}
	return nil
}

// dropSetID clears the set-id bits of a file whose content or owner changes. If the group may not
// execute the file, the set-group-id bit means mandatory locking, and stays.
func dropSetID(a *vfs.Attr) {
	if a.Type == vfs.Directory {
		return
	}
	a.Mode &^= setUID
	if a.Mode&groupExec != 0 {
		a.Mode &^= setGID
	}
}

// inherit returns the mode and the group of a new file of type t that c makes in dir.
func inherit(c *vfs.Cred, dir *vfs.Attr, t vfs.Type, mode uint32) (uint32, uint32) {
	if dir.Mode&setGID == 0 {
		return mode, c.GID
	}
	if t == vfs.Directory {
		return mode | setGID, dir.GID
	}
	const runnable = setGID | groupExec
	if mode&runnable == runnable && c.UID != 0 && !inGroup(c, dir.GID) {
		mode &^= setGID
	}
	return mode, dir.GID
}
