package billy

import (
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/willscott/go-nfs/file"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// facts are what a file system says of a file, without what reading changes.
type facts struct {
	mode         fs.FileMode
	size         int64
	mtime, ctime vfs.Time // ctime zero where it is not told
	nlink        uint32
	uid, gid     uint32
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
	// text is the length of a symlink's text, 0 where not known.
	text int
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

func factsOf(info fs.FileInfo) facts {
	s := facts{mode: info.Mode(), size: info.Size(), mtime: timeOf(info.ModTime())}
	if i := file.GetInfo(info); i != nil {
		s.nlink, s.uid, s.gid = i.Nlink, i.UID, i.GID
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		s.ctime = vfs.Time{Sec: int64(st.Ctim.Sec), Nsec: uint32(st.Ctim.Nsec)}
	}
	return s
}

func device(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Dev)
	}
	return 0
}

func kind(info fs.FileInfo) vfs.Type {
	switch m := info.Mode(); {
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

// observe makes attributes of n from what was just seen of it.
func (f *FS) observe(n *node, info fs.FileInfo, did done) vfs.Attr {
	s := factsOf(info)
	if f.restless {
		s.mtime = vfs.Time{}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case !n.known:
		if f.restless {
			n.mtime = timeOf(time.Now())
		}
		n.ctime = s.mtime
		if n.ctime.Before(n.mtime) {
			n.ctime = n.mtime
		}
		n.change = nanos(n.ctime)
		if s.ctime != (vfs.Time{}) {
			n.change = nanos(s.ctime)
		}
		n.known = true
	case s != n.seen || did > looked:
		now := timeOf(time.Now())
		if !n.ctime.Before(now) {
			now = n.ctime
			if now.Nsec++; now.Nsec == 1e9 {
				now.Sec, now.Nsec = now.Sec+1, 0
			}
		}
		n.ctime = now
		n.change = max(n.change+1, nanos(s.ctime))
		if did == rewritten && s.mtime == n.seen.mtime {
			n.mtime = now
		}
	}
	n.seen = s
	return f.attr(n, info)
}

// measure learns how long a symlink's text is: file systems that rewrite texts
// tell another size.
func (f *FS) measure(n *node, path string) {
	if n.kind != vfs.Symlink {
		return
	}
	f.mu.Lock()
	known := n.text > 0
	f.mu.Unlock()
	if known {
		return
	}
	if text, err := f.fs.Readlink(path); err == nil {
		f.mu.Lock()
		n.text = len(text)
		f.mu.Unlock()
	}
}

// attr makes attributes of what was observed; mu is held.
func (f *FS) attr(n *node, info fs.FileInfo) vfs.Attr {
	s := &n.seen
	a := vfs.Attr{
		Type: n.kind, Mode: posixMode(s.mode), Nlink: s.nlink, UID: s.uid, GID: s.gid,
		Size: uint64(max(s.size, 0)), Used: uint64(max(s.size, 0)),
		FSID: f.opt.FSID, FileID: n.id,
		Mtime: s.mtime, Atime: s.mtime, Ctime: s.ctime, Change: n.change,
	}
	if n.text > 0 {
		a.Size = uint64(n.text)
	}
	if i := file.GetInfo(info); i != nil {
		a.Major, a.Minor = i.Major, i.Minor
	} else {
		a.Nlink = max(1, uint32(len(n.links)))
	}
	if s.mtime.Before(n.mtime) {
		a.Mtime = n.mtime
	}
	if s.ctime == (vfs.Time{}) {
		a.Ctime = n.ctime
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		a.Atime = vfs.Time{Sec: int64(st.Atim.Sec), Nsec: uint32(st.Atim.Nsec)}
		a.Used = uint64(st.Blocks) * 512
	}
	if a.Atime.Before(n.atime) {
		a.Atime = n.atime
	}
	return a
}

// stat looks at n. FS.calls is held, or Options.Concurrent is set; writing
// says that n.io is held exclusively.
func (f *FS) stat(n *node, did done, writing bool) (vfs.Attr, error) {
	path, err := f.path(n)
	if err != nil {
		return vfs.Attr{}, err
	}
	if !writing {
		n.io.RLock()
	}
	info, err := f.fs.Lstat(path)
	if !writing {
		n.io.RUnlock()
	}
	if err == nil && f.same(n, info) {
		f.measure(n, path)
		return f.observe(n, info, did), nil
	}
	if n == f.root {
		// The root is whatever is there.
		return vfs.Attr{}, errno(err)
	}
	if err == nil {
		f.lost(n)
		return vfs.Attr{}, syscall.ESTALE
	}
	switch err := errno(err); err {
	case syscall.ENOENT, syscall.ENOTDIR:
		f.lost(n)
		return vfs.Attr{}, syscall.ESTALE
	default:
		return vfs.Attr{}, err
	}
}

// look is find and stat.
func (f *FS) look(h vfs.Handle, a *vfs.Attr) (*node, error) {
	n, err := f.find(h)
	if err != nil {
		return nil, err
	}
	*a, err = f.stat(n, looked, false)
	return n, err
}

// changing begins a Change of the object of a handle.
func (f *FS) changing(h vfs.Handle, ch *vfs.Change) (*node, error) {
	n, err := f.look(h, &ch.Before)
	if err != nil {
		return nil, err
	}
	ch.HasBefore = true
	return n, nil
}

// changed ends a Change of n; it is called without a failure of its own: what
// was done was done.
func (f *FS) changed(n *node, ch *vfs.Change, did done, writing bool) {
	a, err := f.stat(n, did, writing)
	if err != nil {
		return
	}
	ch.After, ch.HasAfter = a, true
	ch.Atomic = f.opt.Sole && ch.HasBefore && !(f.opt.Concurrent && n.kind == vfs.Regular)
}

// GetAttr implements vfs.FileSystem.
func (f *FS) GetAttr(op *vfs.Op, h vfs.Handle, a *vfs.Attr) error {
	if op.Try {
		return vfs.ErrWouldBlock
	}
	f.calls.RLock()
	defer f.calls.RUnlock()
	_, err := f.look(h, a)
	return err
}

// Access implements vfs.FileSystem. The file system judges nobody, so all that
// a file's kind allows is granted.
func (f *FS) Access(op *vfs.Op, h vfs.Handle, want vfs.Access, a *vfs.Attr) (vfs.Access, error) {
	if op.Try {
		return 0, vfs.ErrWouldBlock
	}
	f.calls.RLock()
	defer f.calls.RUnlock()
	if _, err := f.look(h, a); err != nil {
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
