package memfs

import (
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// GetAttr implements vfs.FileSystem.
func (f *FS) GetAttr(op *vfs.Op, h vfs.Handle, a *vfs.Attr) error {
	if err := f.enter(op, GetAttr); err != nil {
		return err
	}
	defer f.leave()
	n, err := f.rlock(h)
	if err != nil {
		return err
	}
	n.tell(op, a)
	n.mu.RUnlock()
	return nil
}

// SetAttr implements vfs.FileSystem.
func (f *FS) SetAttr(op *vfs.Op, h vfs.Handle, s *vfs.SetAttr, guard *vfs.Time) (vfs.Change, error) {
	return f.alter(op, SetAttr, h, func(n *node) error {
		if guard != nil && *guard != n.attr.Ctime {
			return vfs.ErrNotSync
		}
		err := maySet(op.Cred, n, s)
		if err == nil && !s.IsZero() {
			f.set(op.Cred, n, s, f.now())
		}
		return err
	})
}

// maySet returns nil if c may make all the changes of s to n, and the error otherwise. It changes
// nothing.
func maySet(c *vfs.Cred, n *node, s *vfs.SetAttr) error {
	a := &n.attr
	owner := c.UID == 0 || c.UID == a.UID
	if s.SetSize {
		switch {
		case a.Type == vfs.Directory:
			return syscall.EISDIR
		case a.Type != vfs.Regular:
			return syscall.EINVAL
		case !mayData(c, a, mayWrite):
			return syscall.EACCES
		case s.Size > maxFileSize:
			return syscall.EFBIG
		}
	}
	if s.SetMode && !owner {
		return syscall.EPERM
	}
	if c.UID != 0 {
		if s.SetUID && (c.UID != a.UID || s.UID != a.UID) {
			return syscall.EPERM
		}
		if s.SetGID && (c.UID != a.UID || s.GID != a.GID && !inGroup(c, s.GID)) {
			return syscall.EPERM
		}
	}
	for _, t := range [...]vfs.TimeHow{s.AtimeHow, s.MtimeHow} {
		switch t {
		case vfs.ClientTime:
			if !owner {
				return syscall.EPERM
			}
		case vfs.ServerTime:
			if !owner && !may(c, a, mayWrite) {
				return syscall.EACCES
			}
		}
	}
	for _, t := range [...]*vfs.Time{&s.Atime, &s.Mtime} {
		if t.Nsec >= 1e9 {
			return syscall.EINVAL
		}
	}
	return nil
}

// set applies s to n. The caller holds n.mu.
func (f *FS) set(c *vfs.Cred, n *node, s *vfs.SetAttr, now vfs.Time) {
	a := &n.attr
	if s.SetSize {
		dropSetID(a)
		f.resize(n, s.Size)
	}
	n.touch(now, s.SetSize)
	if s.SetUID {
		a.UID = s.UID
	}
	if s.SetGID {
		a.GID = s.GID
	}
	if s.SetUID || s.SetGID {
		dropSetID(a)
	}
	if s.SetMode {
		a.Mode = s.Mode & 0o7777
		if c.UID != 0 && !inGroup(c, a.GID) {
			a.Mode &^= setGID
		}
	}
	switch s.AtimeHow {
	case vfs.ServerTime:
		a.Atime = a.Ctime
	case vfs.ClientTime:
		a.Atime = s.Atime
	}
	switch s.MtimeHow {
	case vfs.ServerTime:
		a.Mtime = a.Ctime
	case vfs.ClientTime:
		a.Mtime = s.Mtime
	}
}

// Access implements vfs.FileSystem.
func (f *FS) Access(op *vfs.Op, h vfs.Handle, want vfs.Access, a *vfs.Attr) (vfs.Access, error) {
	if err := f.enter(op, Access); err != nil {
		return 0, err
	}
	defer f.leave()
	n, err := f.rlock(h)
	if err != nil {
		return 0, err
	}
	*a = n.attr
	n.mu.RUnlock()
	return access(op.Cred, a) & want, nil
}

func access(c *vfs.Cred, a *vfs.Attr) (got vfs.Access) {
	xattrs := a.Type == vfs.Regular || a.Type == vfs.Directory
	if may(c, a, mayRead) {
		got |= vfs.AccessRead
		if xattrs {
			got |= vfs.AccessXattrRead | vfs.AccessXattrList
		}
	}
	if xattrs && may(c, a, mayWrite) {
		got |= vfs.AccessXattrWrite
	}
	if a.Type == vfs.Directory {
		if may(c, a, mayExec) {
			got |= vfs.AccessLookup
		}
		if may(c, a, mayWrite|mayExec) {
			got |= vfs.AccessModify | vfs.AccessExtend | vfs.AccessDelete
		}
		return got
	}
	if may(c, a, mayWrite) {
		got |= vfs.AccessModify | vfs.AccessExtend
	}
	if may(c, a, mayExec) {
		got |= vfs.AccessExecute
	}
	return got
}
