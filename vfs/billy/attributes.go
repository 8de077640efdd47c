package billy

import (
	"cmp"
	"io/fs"
	"os"
	"syscall"
	"time"

	gobilly "github.com/go-git/go-billy/v5"
	"github.com/willscott/go-nfs/file"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Bits of a POSIX mode.
const (
	setUID    = 0o4000
	setGID    = 0o2000
	sticky    = 0o1000
	groupExec = 0o010
)

// bits pairs each set-id or sticky bit of a POSIX mode with the same bit of an fs.FileMode.
var bits = []struct {
	posix uint32
	fs    fs.FileMode
}{{setUID, fs.ModeSetuid}, {setGID, fs.ModeSetgid}, {sticky, fs.ModeSticky}}

func posixMode(m fs.FileMode) uint32 {
	mode := uint32(m.Perm())
	for _, b := range bits {
		if m&b.fs != 0 {
			mode |= b.posix
		}
	}
	return mode
}

func osMode(mode uint32) fs.FileMode {
	m := fs.FileMode(mode & 0o777)
	for _, b := range bits {
		if mode&b.posix != 0 {
			m |= b.fs
		}
	}
	return m
}

// types has the vfs.Type of each file type except regular files.
var types = map[fs.FileMode]vfs.Type{
	fs.ModeDir:                        vfs.Directory,
	fs.ModeSymlink:                    vfs.Symlink,
	fs.ModeDevice:                     vfs.BlockDevice,
	fs.ModeDevice | fs.ModeCharDevice: vfs.CharDevice,
	fs.ModeSocket:                     vfs.Socket,
	fs.ModeNamedPipe:                  vfs.FIFO,
}

func timeOf(t time.Time) vfs.Time {
	if t.IsZero() {
		return vfs.Time{}
	}
	return vfs.Time{Sec: t.Unix(), Nsec: uint32(t.Nanosecond())}
}

func device(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Dev)
	}
	return 0
}

// shown returns the attributes in info. Attributes that the file system does not have are zero,
// for example Nlink, FileID and Ctime.
func (f *FS) shown(info fs.FileInfo) vfs.Attr {
	size := uint64(max(info.Size(), 0))
	a := vfs.Attr{Type: cmp.Or(types[info.Mode().Type()], vfs.Regular), Mode: posixMode(info.Mode()), Size: size, Used: size}
	if !f.restless {
		a.Mtime = timeOf(info.ModTime())
	}
	a.Atime = a.Mtime
	if i := file.GetInfo(info); i != nil {
		a.Nlink, a.UID, a.GID, a.Major, a.Minor = i.Nlink, i.UID, i.GID, i.Major, i.Minor
		if device(info) == f.device {
			a.FileID = i.Fileid // inode numbers identify files only on one device
		}
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		a.Ctime = vfs.Time{Sec: int64(st.Ctim.Sec), Nsec: uint32(st.Ctim.Nsec)}
		a.Atime = vfs.Time{Sec: int64(st.Atim.Sec), Nsec: uint32(st.Atim.Nsec)}
		a.Used = uint64(st.Blocks) * 512
	}
	return a
}

// lstat returns the attributes that the file system has for n, or for a name in the directory n.
// For a symlink, the size is the length of the text that Readlink returns. Some file systems change
// the text in Readlink, so that the size from Lstat does not fit it.
func (f *FS) lstat(n *node, name string) (a vfs.Attr, err error) {
	err = f.at(n, name, func(path string) error {
		info, err := f.bfs.Lstat(path)
		if err != nil {
			return err
		}
		a = f.shown(info)
		if a.Type != vfs.Symlink {
			return nil
		}
		if text, err := f.bfs.Readlink(path); err == nil {
			a.Size = uint64(len(text))
		}
		return nil
	})
	return a, err
}

// done is the kind of change that calls made to a file since the last call of note; 0: no change.
type done uint8

const (
	altered   done = iota + 1 // a call changed attributes of the file
	rewritten                 // a call changed the file's content, and so its attributes
)

// observe completes a, the attributes of n that lstat has just returned. If n has changed, observe
// calls FS.note, or returns errAlone if other calls may run.
func (f *FS) observe(n *node, a *vfs.Attr) error {
	seen := *a
	seen.Atime, seen.Used = vfs.Time{}, 0 // these may change although nothing changed the file
	if seen != n.seen || n.did > 0 {
		if !f.alone {
			return errAlone
		}
		f.note(n, &seen)
	}
	a.FSID, a.FileID = f.opt.FSID, n.id
	if a.Mtime.Before(n.mtime) {
		a.Mtime = n.mtime
	}
	a.Change = uint64(max(n.stamp, 0))
	if a.Ctime == (vfs.Time{}) {
		a.Ctime = timeOf(time.Unix(0, n.stamp))
	}
	a.Nlink = cmp.Or(a.Nlink, max(1, uint32(len(n.links))))
	return nil
}

// note records a change of n: it gives n a new stamp. It is called if n's attributes differ from
// those in n.seen, or if a call changed n.
func (f *FS) note(n *node, seen *vfs.Attr) {
	first := n.seen.Type == 0
	stamp := time.Now().UnixNano()
	if seen.Ctime != (vfs.Time{}) {
		stamp = seen.Ctime.Time().UnixNano()
	} else if first && !f.restless {
		stamp = seen.Mtime.Time().UnixNano()
	}
	if !first {
		stamp = max(stamp, n.stamp+1)
	}
	if first && f.restless || n.did == rewritten && seen.Mtime == n.seen.Mtime {
		n.mtime = timeOf(time.Unix(0, stamp))
	}
	n.stamp, n.seen, n.did = stamp, *seen, 0
}

// stat reads n's attributes and completes them with observe. ESTALE: n is no longer at its path.
func (f *FS) stat(n *node) (vfs.Attr, error) {
	a, err := f.lstat(n, "")
	switch {
	case err == nil && (n.is(&a) || n == f.root && a.Type == n.kind):
		return a, f.observe(n, &a)
	case n == f.root && err != nil, err != nil && err != syscall.ENOENT && err != syscall.ENOTDIR:
		return a, err
	case !f.alone:
		return a, errAlone
	}
	for len(n.links) > 0 {
		f.detach(n.links[0]) // the last call removes the node, too
	}
	return a, syscall.ESTALE
}

// GetAttr implements vfs.FileSystem.
func (f *FS) GetAttr(op *vfs.Op, h vfs.Handle, a *vfs.Attr) error {
	return f.look(op, func() error { _, err := f.get(h, a); return err })
}

// Access implements vfs.FileSystem. It grants every right that the type of the file allows,
// because the file system does not check permissions.
func (f *FS) Access(op *vfs.Op, h vfs.Handle, want vfs.Access, a *vfs.Attr) (vfs.Access, error) {
	if err := f.GetAttr(op, h, a); err != nil {
		return 0, err
	}
	got := vfs.AccessRead | vfs.AccessModify | vfs.AccessExtend
	if a.Type == vfs.Directory {
		got |= vfs.AccessLookup | vfs.AccessDelete
	} else if a.Mode&0o111 != 0 {
		got |= vfs.AccessExecute
	}
	if f.readOnly {
		got &^= vfs.AccessModify | vfs.AccessExtend | vfs.AccessDelete
	}
	return got & want, nil
}

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
