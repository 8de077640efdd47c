package local

import (
	"encoding/binary"
	"math"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Cookies. The FS itself makes the entries "." and "..", with cookies 1 and 2, so that they come
// first on every file system and have the right inode numbers; it skips the entries of these names
// that the kernel lists. Any other entry's cookie is 2 plus the kernel's d_off, which is the
// position after the entry. If this exceeds the positive range of 64-bit offsets, as ext4's mark
// for the end does, the cookie is endCookie.
const (
	dotCookie    = 1
	dotDotCookie = 2
	endCookie    = math.MaxInt64
)

// namesAtOnce and plusAtOnce are the sizes, in bytes, of one read of a directory. plusAtOnce is smaller,
// because fewer entries with attributes fit into a reply, and the next call reads the others again.
const (
	namesAtOnce = 32 << 10
	plusAtOnce  = 8 << 10
)

var direntBuffers = sync.Pool{New: func() any { b := make([]byte, namesAtOnce); return &b }}

// ReadDir implements vfs.FileSystem. The kernel checks the caller's right to read the directory;
// the descriptor is opened with the daemon's rights.
func (fs *FS) ReadDir(op *vfs.Op, dir vfs.Handle, cookie uint64, plus bool, dirAttr *vfs.Attr, emit func(*vfs.DirEntry) bool) (bool, error) {
	if op.Try {
		return false, vfs.ErrWouldBlock
	}
	d, err := fs.dir(op, dir)
	if err != nil {
		return false, err
	}
	defer d.put()
	var is look
	if err = fs.look(op, d, &is); err != nil {
		return false, err
	}
	d.fill(dirAttr, &is)
	l := listing{fs: fs, op: op, dir: d, looks: is, settled: fs.kind.memory && is.still && fs.settled(&is), emit: emit, yielded: fs.now()}
	has, err := fs.rights(op, d, &is, mayRead|mayExec)
	if err != nil {
		return false, err
	}
	if has&mayRead == 0 {
		return false, syscall.EACCES
	}
	if cookie > endCookie {
		return false, vfs.ErrBadCookie
	}
	l.plus = plus && has&mayExec != 0
	if cookie < dotDotCookie && !l.dots(cookie) {
		return false, nil
	}
	if cookie == endCookie {
		return true, nil
	}
	cookie, ended, eof := l.fromMemory(max(cookie, dotDotCookie))
	if ended {
		return eof, nil
	}
	return l.rest(cookie)
}

// A listing is one call of ReadDir.
type listing struct {
	fs   *FS
	op   *vfs.Op
	dir  *node
	plus bool
	emit func(*vfs.DirEntry) bool
	// looks holds dir's attributes at the start. settled is true if the entries may be remembered
	// together with the Change in looks (see FS.settled).
	looks   look
	settled bool
	// at is the number of entries of dir, without "." and "..", that come before the entry that is
	// emitted next. It is unknownPlace if that number is not known.
	at int
	// handed is the number of entries that hand has taken; yielded is the time of the last yield, or
	// of the beginning.
	handed  int
	yielded time.Time
}

// dots emits those of "." and ".." whose cookie is greater than cookie. It returns false if emit did.
func (l *listing) dots(cookie uint64) bool {
	for _, e := range []struct {
		name   string
		cookie uint64
	}{{".", dotCookie}, {"..", dotDotCookie}} {
		if cookie >= e.cookie {
			continue
		}
		entry := vfs.DirEntry{Name: []byte(e.name), Cookie: e.cookie, FileID: l.dir.fileID}
		var is look
		if n, err := l.fs.dotChild(l.op, l.dir, entry.Name, &is); err == nil {
			entry.FileID = n.fileID
			if l.plus {
				entry.Handle, entry.HasAttr = n.handle, true
				n.fill(&entry.Attr, &is)
				_ = l.fs.tellWanted(l.op, n, &entry.Attr) // op.Try is not set, so there is no error
			}
			n.put()
		}
		if !l.emit(&entry) {
			return false
		}
	}
	return true
}

// fromMemory emits the remembered entries after cookie. It returns the cookie after which the
// kernel's listing continues. If ended is true, the kernel is not needed: either the listing
// reached the end of the directory (eof is true), or emit returned false.
func (l *listing) fromMemory(cookie uint64) (next uint64, ended, eof bool) {
	entries, whole, at := l.dir.listFrom(cookie)
	l.at = at
	var entry vfs.DirEntry
	for i := range entries {
		e := &entries[i]
		entry = vfs.DirEntry{Name: e.name, FileID: e.ino, Cookie: e.cookie}
		if (!l.plus || l.known(&entry, e)) && !l.hand(&entry) {
			l.dir.memory.ended(l, cookie, false)
			return cookie, true, false
		}
		cookie = e.cookie
		l.at++
	}
	return cookie, whole, whole
}

// rest emits the entries that the kernel lists after cookie, which is 2 or more.
func (l *listing) rest(cookie uint64) (bool, error) {
	s := l.dir.streams.take(cookie)
	if s == nil {
		fd, err := l.fs.openDir(l.op, l.dir)
		if err != nil {
			return false, err
		}
		s = &dirStream{fs: l.fs, fd: fd, at: dotDotCookie}
		l.fs.holdings.listings.Add(1)
	}
	s.used = l.fs.nodes.round.Load()
	list := l.restByPlace
	if l.fs.kind.noPlaces {
		list = l.restByName
	}
	eof, err := list(s, cookie)
	if err != nil {
		s.close()
		if err == syscall.ENOENT {
			err = syscall.ESTALE // the directory was removed
		}
		return false, err
	}
	l.dir.streams.give(s)
	l.fs.nodes.hasten(l.dir)
	return eof, nil
}

// restByPlace emits the entries after cookie on a file system whose d_off stays valid.
func (l *listing) restByPlace(s *dirStream, cookie uint64) (eof bool, err error) {
	// The descriptor may have buffered entries after cookie that an earlier call read; they may be
	// out of date. The seek discards them.
	if _, err := sysSeek(s.fd, int64(cookie-dotDotCookie), unix.SEEK_SET); err != nil {
		if err == syscall.EINVAL {
			err = vfs.ErrBadCookie
		}
		return false, err
	}
	s.at = cookie
	buf := direntBuffers.Get().(*[]byte)
	defer direntBuffers.Put(buf)
	room := *buf
	if l.plus {
		room = room[:plusAtOnce]
	}
	var entry vfs.DirEntry
	for e, err := range dirents(s.fd, room) {
		if err != nil {
			return false, err
		}
		entry = vfs.DirEntry{Name: e.name, FileID: e.ino, Cookie: cookieOf(e.off)}
		h, there := vfs.Handle{}, true
		if l.plus {
			h, there = l.attributes(&entry)
		} else if l.fs.kind.subvolumes && e.directory {
			there = l.number(&entry)
		}
		if !there {
			l.at = unknownPlace
			continue // the entry was removed meanwhile
		}
		if !l.hand(&entry) {
			l.dir.memory.ended(l, s.at, false)
			return false, nil
		}
		s.at = entry.Cookie
		if h.IsZero() {
			l.at = unknownPlace
		}
		l.at = l.dir.memory.add(l, &entry, h, l.at)
	}
	l.dir.memory.ended(l, s.at, true)
	return true, nil
}

// cookieOf converts the kernel's d_off to a cookie.
func cookieOf(off uint64) uint64 {
	if off == 0 || off > endCookie-dotDotCookie {
		return endCookie
	}
	return off + dotDotCookie
}

// yieldAfter is the time after which a listing yields the processor; otherwise the Go runtime would
// let it use the processor for 10 ms. The listing looks at the clock every yieldCheck entries.
const (
	yieldAfter = 500 * time.Microsecond
	yieldCheck = 16
)

// hand emits an entry other than "." and "..", with the attributes in op.Want. An entry that is a
// mount point has no attributes here; so MountedOn is the entry's own number.
func (l *listing) hand(e *vfs.DirEntry) bool {
	if l.handed++; l.handed%yieldCheck == 0 {
		if now := l.fs.now(); now.Sub(l.yielded) > yieldAfter {
			runtime.Gosched()
			l.yielded = now
		}
	}
	if l.op.Want != 0 && e.HasAttr {
		if l.op.Want&vfs.WantMountedOn != 0 {
			e.Attr.MountedOn = e.Attr.FileID
		}
		if l.op.Want&vfs.WantBirth != 0 && !e.Attr.HasBirth {
			tellBirth(l.dir.fd, string(e.Name), 0, e.Attr.FileID, &e.Attr)
		}
	}
	return l.emit(e)
}

// known fills in the handle and the attributes of an entry of the remembered list. It reads the
// file's present attributes, because these can change while the name does not. If a node holds the
// file open, known reads them through the node and not by name: the node's file still has the name,
// because the directory has not changed since the listing was remembered. If that fails, known calls
// attributes. It returns false if the entry does not exist any more.
func (l *listing) known(e *vfs.DirEntry, listed *listedName) bool {
	var is look
	var seen bool
	if n := listed.node.Value(); n != nil && !n.inode.gone.Load() && n.hold() {
		defer n.put() // without a search for the node in the cache
		n.used.Store(l.fs.nodes.round.Load())
		seen = n.stat(&is) == nil
	} else {
		seen = l.see(listed.handle, l.dir.fd, e.Name, &is)
	}
	if seen && is.Nlink > 0 && is.Ino == e.FileID && is.Dev == l.looks.Dev {
		l.tell(e, listed.handle, l.dir.fsid, &is)
		return true
	}
	_, there := l.attributes(e)
	return there
}

// attributes fills in the handle and the attributes of an entry, and returns the handle to remember
// for it, which is zero if the file is on another device than the directory. That takes two system
// calls if the kernel can make a handle from the name, and otherwise four. It returns false if the
// entry does not exist any more. An entry that cannot be opened, such as a mount point, or whose
// attributes cannot be read, gets neither, and the handle is zero.
func (l *listing) attributes(e *vfs.DirEntry) (h vfs.Handle, there bool) {
	if h, ok := l.byName(e); ok {
		return h, true
	}
	return l.byDescriptor(e)
}

// byDescriptor opens the file of an entry to fill it in. Its results are those of attributes.
func (l *listing) byDescriptor(e *vfs.DirEntry) (h vfs.Handle, there bool) {
	fd, err := l.fs.openName(l.dir, e.Name)
	if err != nil {
		return h, err != syscall.ENOENT
	}
	defer unix.Close(fd)
	var is look
	if sysFstat(fd, &is.Stat_t) != nil {
		return h, true
	}
	file, err := l.fs.handles.identify(fd, &is.Stat_t)
	if err != nil {
		return h, true
	}
	l.fs.resolver.Room(false)
	l.fs.resolver.Note(l.dir.handle, file, e.Name)
	fsid := l.fs.fsid(fd, &is.Stat_t, l.dir)
	if !l.see(file, fd, nil, &is) {
		return h, true
	}
	l.tell(e, file, fsid, &is)
	if is.Dev == l.looks.Dev {
		return file, true
	}
	if l.op.Want&vfs.WantBirth != 0 {
		tellBirth(fd, "", unix.AT_EMPTY_PATH, is.Ino, &e.Attr)
	}
	return h, true
}

// byName fills in an entry by its name without opening the file, which saves half of the system
// calls. Between the calls for the handle and for the attributes, another file may get the name; so
// the result counts only if the handle contains the inode number in the attributes. It does not
// count, either, if the file is on another device than the directory: only a descriptor of the file
// itself shows which file system that is.
func (l *listing) byName(e *vfs.DirEntry) (h vfs.Handle, ok bool) {
	if _, byKernel := l.fs.resolver.(kernelResolver); !byKernel {
		return h, false
	}
	file, mount, err := l.fs.handleOf(l.dir.fd, e.Name)
	if err != nil || uint64(mount) != l.fs.mountID {
		return h, false
	}
	var is look
	if !l.see(file, l.dir.fd, e.Name, &is) || is.Dev != l.looks.Dev || !namesInode(file.Bytes()[2:], is.Ino) {
		return h, false
	}
	l.tell(e, file, l.dir.fsid, &is)
	return file, true
}

// namesInode reports whether a kernel's handle contains an inode number. Those of the usual file systems
// contain at least its low 32 bits, aligned, in the machine's byte order.
func namesInode(handle []byte, ino uint64) bool {
	for ; len(handle) >= 4; handle = handle[4:] {
		if binary.NativeEndian.Uint32(handle) == uint32(ino) {
			return true
		}
	}
	return false
}

// see reads the attributes of the file h into its last argument: through the file's node if it has
// one. Otherwise the file is the one called name in the directory dir; if name is empty, dir is a
// descriptor of the file itself.
func (l *listing) see(h vfs.Handle, dir int, name []byte, is *look) bool {
	if n := l.fs.nodes.cached(&h); n != nil {
		defer n.put()
		return n.stat(is) == nil
	}
	return l.sight(h, dir, name, is)
}

// sight is see for a file without a node.
func (l *listing) sight(h vfs.Handle, dir int, name []byte, is *look) bool {
	g := inodes.sight(&h)
	if fstatAt(dir, name, &is.Stat_t) != nil {
		return false
	}
	key := inodeKey{is.Dev, h}
	if is.change = stamp(&is.Stat_t); g.ctimeSays(key) {
		return true
	}
	i := inodes.acquire(key, &is.Stat_t, l.fs.syncer.device)
	defer inodes.giveBack(i)
	i.version.beginLook(is)
	if fstatAt(dir, name, &is.Stat_t) != nil || is.Dev != key.dev {
		return false
	}
	i.version.tell(is)
	return true
}

// tell fills in the handle and the attributes of an entry.
func (l *listing) tell(e *vfs.DirEntry, h vfs.Handle, fsid uint64, is *look) {
	e.Handle, e.HasAttr, e.FileID = h, true, l.fs.fileID(fsid, &is.Stat_t)
	fill(&e.Attr, fsid, e.FileID, is)
}
