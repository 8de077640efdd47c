package billy

import (
	"cmp"
	"io/fs"
	"syscall"
	"time"

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

// done is the kind of change that calls have made to a file since the last call of note. 0 means no
// change.
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
	f.lose(n)
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
