package billy

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/willscott/go-nfs/file"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// facts are what a file system says of a file, without what reading changes.
type facts struct {
	mode            fs.FileMode
	size            int64    // of a symlink the length of its text
	mtime, ctime    vfs.Time // ctime zero where it is not told
	nlink, uid, gid uint32   // nlink 0 where it is not told
}

// A sight is what one look at a file shows.
type sight struct {
	facts
	atime        vfs.Time
	used         uint64 // bytes of storage
	major, minor uint32
	inode        uint64 // 0 where the file system has no number that tells files apart
}

// observed is what is made of the facts, seen over time.
type observed struct {
	seen  facts
	known bool
	// change grows with every change that is seen or made.
	change uint64
	// ctime of file systems that tell none; mtime and atime where they were
	// changed through here and the file system did not move its own.
	ctime, mtime, atime vfs.Time
}

func timeOf(t time.Time) vfs.Time {
	if t.IsZero() {
		return vfs.Time{}
	}
	return vfs.Time{Sec: t.Unix(), Nsec: uint32(t.Nanosecond())}
}

func nanos(t vfs.Time) uint64 {
	if t.Sec < 0 {
		return 0
	}
	return uint64(t.Sec)*1e9 + uint64(t.Nsec)
}

func later(t, u vfs.Time) vfs.Time {
	if t.Before(u) {
		return u
	}
	return t
}

func device(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Dev)
	}
	return 0
}

func (f *FS) sight(info fs.FileInfo) sight {
	s := sight{facts: facts{mode: info.Mode(), size: info.Size()}, used: uint64(max(info.Size(), 0))}
	if !f.restless {
		s.mtime = timeOf(info.ModTime())
	}
	s.atime = s.mtime
	if i := file.GetInfo(info); i != nil {
		s.nlink, s.uid, s.gid, s.major, s.minor = i.Nlink, i.UID, i.GID, i.Major, i.Minor
		if device(info) == f.device {
			s.inode = i.Fileid
		}
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		s.ctime = vfs.Time{Sec: int64(st.Ctim.Sec), Nsec: uint32(st.Ctim.Nsec)}
		s.atime = vfs.Time{Sec: int64(st.Atim.Sec), Nsec: uint32(st.Atim.Nsec)}
		s.used = uint64(st.Blocks) * 512
	}
	return s
}

// lstat looks at what is at path. The length of a symlink is its text's as
// Readlink has it: file systems that rewrite texts tell another size.
func (f *FS) lstat(path string) (*sight, error) {
	info, err := f.fs.Lstat(path)
	if err != nil {
		return nil, err
	}
	s := f.sight(info)
	if s.kind() == vfs.Symlink {
		if text, err := f.fs.Readlink(path); err == nil {
			s.size = int64(len(text))
		}
	}
	return &s, nil
}

func (s *facts) kind() vfs.Type {
	switch m := s.mode; {
	case m.IsDir():
		return vfs.Directory
	case m&os.ModeSymlink != 0:
		return vfs.Symlink
	case m&os.ModeCharDevice != 0:
		return vfs.CharDevice
	case m&os.ModeDevice != 0:
		return vfs.BlockDevice
	case m&os.ModeSocket != 0:
		return vfs.Socket
	case m&os.ModeNamedPipe != 0:
		return vfs.FIFO
	}
	return vfs.Regular
}

// Bits of a mode, as POSIX has them.
const (
	setUID    = 0o4000
	setGID    = 0o2000
	sticky    = 0o1000
	groupExec = 0o010
)

// Set-id and sticky bits, as POSIX has them and as package os has them.
var bits = []struct {
	posix uint32
	os    fs.FileMode
}{{setUID, os.ModeSetuid}, {setGID, os.ModeSetgid}, {sticky, os.ModeSticky}}

func posixMode(m fs.FileMode) uint32 {
	mode := uint32(m.Perm())
	for _, b := range bits {
		if m&b.os != 0 {
			mode |= b.posix
		}
	}
	return mode
}

func osMode(mode uint32) fs.FileMode {
	m := fs.FileMode(mode & 0o777)
	for _, b := range bits {
		if mode&b.posix != 0 {
			m |= b.os
		}
	}
	return m
}

// What has just been done to a file that is observed.
type done uint8

const (
	looked    done = iota
	altered        // its attributes were changed
	rewritten      // its content, too
)

// observe makes attributes of n from a sight of it.
func (f *FS) observe(n *node, s *sight, did done) (vfs.Attr, error) {
	if !n.known || s.facts != n.seen || did > looked {
		if !f.alone {
			return vfs.Attr{}, errAlone
		}
		n.note(&s.facts, did, f.restless)
	}
	a := vfs.Attr{
		Type: n.kind, Mode: posixMode(s.mode), Nlink: s.nlink, UID: s.uid, GID: s.gid,
		Size: uint64(max(s.size, 0)), Used: s.used, Major: s.major, Minor: s.minor,
		FSID: f.opt.FSID, FileID: n.id, Change: n.change,
		Atime: later(s.atime, n.atime), Mtime: later(s.mtime, n.mtime), Ctime: s.ctime,
	}
	if a.Nlink == 0 {
		a.Nlink = max(1, uint32(len(n.links)))
	}
	if a.Ctime == (vfs.Time{}) {
		a.Ctime = n.ctime
	}
	return a, nil
}

// note notes facts that are new.
func (n *observed) note(s *facts, did done, restless bool) {
	now := timeOf(time.Now())
	if n.known {
		next := vfs.Time{Sec: n.ctime.Sec, Nsec: n.ctime.Nsec + 1}
		if next.Nsec == 1e9 {
			next = vfs.Time{Sec: next.Sec + 1}
		}
		n.ctime = later(now, next)
		n.change = max(n.change+1, nanos(s.ctime))
		if did == rewritten && s.mtime == n.seen.mtime {
			n.mtime = n.ctime
		}
	} else {
		n.known = true
		if restless {
			n.mtime = now
		}
		n.ctime = later(s.mtime, n.mtime)
		n.change = nanos(n.ctime)
		if s.ctime != (vfs.Time{}) {
			n.change = nanos(s.ctime)
		}
	}
	n.seen = *s
}

// stat looks at n.
func (f *FS) stat(n *node, did done) (vfs.Attr, error) {
	path, err := f.path(n)
	if err != nil {
		return vfs.Attr{}, err
	}
	s, err := f.lstat(path)
	switch {
	case err == nil && (n.is(s) || n == f.root && s.kind() == n.kind):
		return f.observe(n, s, did)
	case n == f.root && err != nil:
		return vfs.Attr{}, err
	case err == nil, errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ENOTDIR):
		return vfs.Attr{}, f.lost(n)
	}
	return vfs.Attr{}, err
}

// get finds the node of a handle and looks at it.
func (f *FS) get(h vfs.Handle, a *vfs.Attr) (*node, error) {
	n, err := f.find(h)
	if err != nil {
		return nil, err
	}
	*a, err = f.stat(n, looked)
	return n, err
}

// changing begins a Change of the object of a handle.
func (f *FS) changing(h vfs.Handle, ch *vfs.Change) (*node, error) {
	n, err := f.get(h, &ch.Before)
	if err != nil {
		return nil, err
	}
	ch.HasBefore = true
	return n, nil
}

// changed ends a Change of n. It does not fail: what was done was done. Where a
// directory was known whole, and only this call has been at it, it still is.
func (f *FS) changed(n *node, ch *vfs.Change, did done) {
	whole := n.children != nil && n.children.whole && n.children.listed == n.seen
	a, err := f.stat(n, did)
	if err != nil {
		return
	}
	ch.After, ch.HasAfter = a, true
	ch.Atomic = f.opt.Sole
	if did == rewritten && whole {
		n.children.listed = n.seen
	}
}

// GetAttr implements vfs.FileSystem.
func (f *FS) GetAttr(op *vfs.Op, h vfs.Handle, a *vfs.Attr) error {
	return f.look(op, func() error { _, err := f.get(h, a); return err })
}

// Access implements vfs.FileSystem. All that a file's kind allows is granted,
// because the file system does not judge permissions.
func (f *FS) Access(op *vfs.Op, h vfs.Handle, want vfs.Access, a *vfs.Attr) (vfs.Access, error) {
	if err := f.GetAttr(op, h, a); err != nil {
		return 0, err
	}
	got := vfs.AccessRead
	if !f.readOnly {
		got |= vfs.AccessModify | vfs.AccessExtend
	}
	switch {
	case a.Type == vfs.Directory:
		got |= vfs.AccessLookup
		if !f.readOnly {
			got |= vfs.AccessDelete
		}
	case a.Mode&0o111 != 0:
		got |= vfs.AccessExecute
	}
	return got & want, nil
}
