package billy

import (
	"os"
	"syscall"
	"time"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// SetAttr implements vfs.FileSystem.
func (f *FS) SetAttr(op *vfs.Op, h vfs.Handle, s *vfs.SetAttr, guard *vfs.Time) (ch vfs.Change, err error) {
	if op.Try {
		return ch, vfs.ErrWouldBlock
	}
	f.calls.Lock()
	defer f.calls.Unlock()
	n, err := f.changing(h, &ch)
	if err != nil {
		return ch, err
	}
	n.io.Lock()
	defer n.io.Unlock()
	if guard != nil && *guard != ch.Before.Ctime {
		err = vfs.ErrNotSync
	} else {
		err = f.maySet(n, s, &ch.Before)
	}
	did := looked
	if err == nil {
		did, err = f.set(n, s, &ch.Before)
	}
	f.changed(n, &ch, did, true)
	return ch, err
}

// maySet judges all of s before any of it happens; a is what n has now.
func (f *FS) maySet(n *node, s *vfs.SetAttr, a *vfs.Attr) error {
	if f.readOnly && !s.IsZero() {
		return syscall.EROFS
	}
	if s.SetSize {
		switch {
		case n.kind == vfs.Directory:
			return syscall.EISDIR
		case n.kind != vfs.Regular:
			return syscall.EINVAL
		case s.Size > f.opt.MaxFileSize:
			return syscall.EFBIG
		}
	}
	// Chmod and Chtimes follow symlinks, to wherever.
	follows := n.kind == vfs.Symlink
	if s.SetMode && s.Mode&0o7777 != a.Mode && (f.chmod == nil || follows) {
		return vfs.ErrNotSupported
	}
	if otherOwner(s, a) && f.change == nil {
		return vfs.ErrNotSupported
	}
	for _, t := range [...]struct {
		how vfs.TimeHow
		to  vfs.Time
	}{{s.AtimeHow, s.Atime}, {s.MtimeHow, s.Mtime}} {
		if t.how == vfs.ClientTime && (f.change == nil || follows) {
			return vfs.ErrNotSupported
		}
		if t.how == vfs.ClientTime && t.to.Nsec >= 1e9 {
			return syscall.EINVAL
		}
	}
	return nil
}

func otherOwner(s *vfs.SetAttr, a *vfs.Attr) bool {
	return s.SetUID && s.UID != a.UID || s.SetGID && s.GID != a.GID
}

// set applies s to n, whose io is held exclusively, and says what it did.
func (f *FS) set(n *node, s *vfs.SetAttr, a *vfs.Attr) (did done, err error) {
	path, err := f.path(n)
	if err != nil {
		return did, err
	}
	if s.SetSize {
		if err := f.truncate(n, path, s.Size); err != nil {
			return did, err
		}
		f.dropSetID(n, path, a)
		did = rewritten
	}
	if otherOwner(s, a) {
		uid, gid := a.UID, a.GID
		if s.SetUID {
			uid = s.UID
		}
		if s.SetGID {
			gid = s.GID
		}
		if err := f.fs.call(func() error { return f.change.Lchown(path, int(uid), int(gid)) }); err != nil {
			return did, errno(err)
		}
		did = max(did, altered)
	}
	// A change of ownership may have taken bits away.
	if s.SetMode && n.kind != vfs.Symlink && f.chmod != nil {
		if err := f.fs.call(func() error { return f.chmod.Chmod(path, n.chmodMode(s.Mode)) }); err != nil {
			return did, errno(err)
		}
		did = max(did, altered)
	}
	if s.AtimeHow == vfs.KeepTime && s.MtimeHow == vfs.KeepTime {
		return did, nil
	}
	return max(did, altered), f.setTimes(n, path, s, a)
}

// chmodMode is the mode to call Chmod with. Memory file systems take it for all
// of the mode, and a directory for a file without that bit; others look at the
// permissions only.
func (n *node) chmodMode(mode uint32) os.FileMode {
	m := osMode(mode)
	if n.kind == vfs.Directory && !n.inode {
		m |= os.ModeDir
	}
	return m
}

func (f *FS) setTimes(n *node, path string, s *vfs.SetAttr, a *vfs.Attr) error {
	now := timeOf(time.Now())
	pick := func(how vfs.TimeHow, client, current vfs.Time) vfs.Time {
		switch how {
		case vfs.ServerTime:
			return now
		case vfs.ClientTime:
			return client
		}
		return current
	}
	atime, mtime := pick(s.AtimeHow, s.Atime, a.Atime), pick(s.MtimeHow, s.Mtime, a.Mtime)
	var keepA, keepM vfs.Time
	if f.change != nil && n.kind != vfs.Symlink {
		if err := f.fs.call(func() error { return f.change.Chtimes(path, atime.Time(), mtime.Time()) }); err != nil {
			return errno(err)
		}
	} else {
		// The file system cannot, and now is now: it is remembered here.
		keepA, keepM = atime, mtime
	}
	f.mu.Lock()
	n.atime, n.mtime = keepA, keepM
	f.mu.Unlock()
	return nil
}

// dropSetID takes the set-id bits from a file whose content has changed. A
// kernel does that, but not for the superuser, who the program may be. a is
// what n had before.
func (f *FS) dropSetID(n *node, path string, a *vfs.Attr) {
	mode := a.Mode &^ setUID
	if mode&groupExec != 0 {
		mode &^= setGID
	}
	if mode == a.Mode || f.chmod == nil {
		return
	}
	// The data is written, whatever becomes of the bits.
	_ = f.fs.call(func() error { return f.chmod.Chmod(path, n.chmodMode(mode)) })
}

// truncate sets the size of n, whose io is held exclusively.
func (f *FS) truncate(n *node, path string, size uint64) error {
	o, err := f.open.get(f, n, path, true)
	if err != nil {
		return err
	}
	defer f.open.put(o)
	if err := f.fs.call(func() error { return o.file.Truncate(int64(size)) }); err != nil {
		return errno(err)
	}
	return nil
}
