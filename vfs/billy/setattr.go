package billy

import (
	"os"
	"syscall"
	"time"

	gobilly "github.com/go-git/go-billy/v5"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// SetAttr implements vfs.FileSystem.
func (f *FS) SetAttr(op *vfs.Op, h vfs.Handle, s *vfs.SetAttr, guard *vfs.Time) (ch vfs.Change, err error) {
	err = f.alter(op, h, &ch, func(n *node) error {
		if guard != nil && *guard != ch.Before.Ctime {
			return vfs.ErrNotSync
		}
		if err := f.maySet(n, s, &ch.Before); err != nil {
			return err
		}
		return f.set(n, s, &ch.Before)
	})
	return ch, err
}

// maySet returns nil if the file system can make all the changes of s to n, and the error
// otherwise. It changes nothing. The argument a holds n's present attributes.
func (f *FS) maySet(n *node, s *vfs.SetAttr, a *vfs.Attr) error {
	if s.SetSize {
		switch {
		case n.kind != vfs.Regular:
			return n.isFile()
		case s.Size > f.opt.MaxFileSize:
			return syscall.EFBIG
		}
	}
	// Chmod and Chtimes follow symlinks. So they would change another file.
	follows := n.kind == vfs.Symlink
	if s.SetMode && s.Mode&0o7777 != a.Mode && (f.chmod == nil || follows) || otherOwner(s, a) && f.change == nil {
		return vfs.ErrNotSupported
	}
	for _, t := range [...]struct {
		how vfs.TimeHow
		to  vfs.Time
	}{{s.AtimeHow, s.Atime}, {s.MtimeHow, s.Mtime}} {
		switch {
		case t.how != vfs.ClientTime:
		case f.change == nil || follows:
			return vfs.ErrNotSupported
		case t.to.Nsec >= 1e9:
			return syscall.EINVAL
		}
	}
	return nil
}

func otherOwner(s *vfs.SetAttr, a *vfs.Attr) bool {
	return s.SetUID && s.UID != a.UID || s.SetGID && s.GID != a.GID
}

// set applies s to n. The argument a holds n's present attributes.
func (f *FS) set(n *node, s *vfs.SetAttr, a *vfs.Attr) error {
	if s.SetSize {
		if err := f.truncate(n, s.Size, a); err != nil {
			return err
		}
	}
	if otherOwner(s, a) {
		uid, gid := a.UID, a.GID
		if s.SetUID {
			uid = s.UID
		}
		if s.SetGID {
			gid = s.GID
		}
		err := f.altering(n, func(path string) error { return f.change.Lchown(path, int(uid), int(gid)) })
		if err != nil {
			return err
		}
	}
	// The mode comes after the owner, because a change of owner may clear bits of the mode.
	if s.SetMode && n.kind != vfs.Symlink && f.chmod != nil {
		if err := f.setMode(n, s.Mode); err != nil {
			return err
		}
	}
	if s.AtimeHow == vfs.KeepTime && s.MtimeHow == vfs.KeepTime {
		return nil
	}
	return f.setTimes(n, s, a)
}

// altering calls the function do to change attributes of n, and records that n was altered.
func (f *FS) altering(n *node, do func(path string) error) error {
	err := f.at(n, "", do)
	if err == nil {
		n.did = max(n.did, altered)
	}
	return err
}

// setMode calls Chmod with a mode that the file system understands. File systems in memory take
// the argument as the whole mode, so that the mode of a directory needs its type bit. Other file
// systems ignore the type bit. A file system without inode numbers counts as one in memory.
func (f *FS) setMode(n *node, mode uint32) error {
	m := osMode(mode)
	if n.kind == vfs.Directory && !n.inode {
		m |= os.ModeDir
	}
	return f.altering(n, func(path string) error { return f.chmod.Chmod(path, m) })
}

func (f *FS) setTimes(n *node, s *vfs.SetAttr, a *vfs.Attr) error {
	if f.change == nil || n.kind == vfs.Symlink {
		n.did = rewritten // the file system cannot set times; observe sets Mtime to the present time
		return nil
	}
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
	err := f.altering(n, func(path string) error { return f.change.Chtimes(path, atime.Time(), mtime.Time()) })
	if err == nil {
		n.mtime = vfs.Time{}
	}
	return err
}

// truncate sets the size of n. The argument a holds the attributes of n before the change.
func (f *FS) truncate(n *node, size uint64, a *vfs.Attr) error {
	err := f.writing(n, func(file gobilly.File) error { return file.Truncate(int64(size)) })
	if err != nil {
		return err
	}
	n.did = rewritten
	f.dropSetID(n, a)
	return nil
}

// dropSetID clears the set-id bits of a file whose content has changed (set-group-id only if the
// group may execute the file). A kernel does that itself, except for the superuser, and the
// program may run as the superuser. The argument a holds the attributes before the change.
func (f *FS) dropSetID(n *node, a *vfs.Attr) {
	mode := a.Mode &^ setUID
	if mode&groupExec != 0 {
		mode &^= setGID
	}
	if mode != a.Mode && f.chmod != nil {
		// Ignore an error, because the data is written already.
		_ = f.setMode(n, mode)
	}
}
