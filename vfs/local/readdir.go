package local

import (
	"bytes"
	"encoding/binary"
	"math"
	"sync"
	"sync/atomic"
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

// A dirStream is an open descriptor that lists a directory. A call that continues a listing uses
// the stream that an earlier call left at the listing's cookie.
type dirStream struct {
	fd    int
	at    uint64 // cookie of the last entry returned
	used  uint32 // round of the sweeper (one a second) at the last use
	count *atomic.Int64
	// ahead holds the next entries if listings are ordered by name (readdir_by_name.go). last is
	// true if no entries follow these.
	ahead []namedEntry
	last  bool
}

func (s *dirStream) close() {
	unix.Close(s.fd)
	s.count.Add(-1)
}

// dirStreams holds a directory's idle streams.
type dirStreams struct {
	mu   sync.Mutex
	idle []*dirStream
}

// maxStreams is the largest number of idle streams of a directory.
const maxStreams = 4

// take removes an idle stream from s and returns it: one whose position is cookie, if there is one.
// Otherwise it takes any idle stream if cookie is 0 or if maxStreams streams are idle; the caller
// then moves its position. Otherwise it returns nil, and the caller opens a new stream.
func (s *dirStreams) take(cookie uint64) *dirStream {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := len(s.idle) - 1
	for i, d := range s.idle {
		if d.at == cookie || i == last && (last+1 == maxStreams || cookie == 0) {
			s.idle[i] = s.idle[last]
			s.idle = s.idle[:last]
			return d
		}
	}
	return nil
}

func (s *dirStreams) give(d *dirStream) {
	s.mu.Lock()
	if len(s.idle) < maxStreams {
		s.idle = append(s.idle, d)
		d = nil
	}
	s.mu.Unlock()
	if d != nil {
		d.close()
	}
}

// drop closes the streams that were not used lately. patience says for how long: it is a number of
// rounds of the sweeper, which are one second apart. The argument round is the number of the
// present round. drop returns how many streams it closed.
func (s *dirStreams) drop(round, patience uint32) (closed int) {
	s.mu.Lock()
	kept := s.idle[:0]
	for _, d := range s.idle {
		if roundsSince(round, d.used) >= patience {
			d.close()
			closed++
		} else {
			kept = append(kept, d)
		}
	}
	clear(s.idle[len(kept):])
	s.idle = kept
	s.mu.Unlock()
	return closed
}

func (s *dirStreams) closeAll() { s.drop(0, 0) }

// namesAtOnce and plusAtOnce are the sizes, in bytes, of one read of a directory. With attributes
// (plus) fewer entries fit into a reply, and the next call has to read again those that did not
// fit; so plusAtOnce is smaller.
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
	return l.rest(max(cookie, dotDotCookie))
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
	// mount is the ID of dir's mount; 0: not known yet.
	mount int32
	// handed is the number of entries that hand has taken. yielded is when the listing last yielded
	// the processor, or began.
	handed  int
	yielded time.Time
}

// dots emits "." and "..". It skips an entry whose cookie is not greater than the argument cookie.
// It returns false if emit did.
func (l *listing) dots(cookie uint64) bool {
	for _, e := range []struct {
		name   string
		cookie uint64
	}{{".", dotCookie}, {"..", dotDotCookie}} {
		if cookie >= e.cookie {
			continue
		}
		entry := vfs.DirEntry{Name: []byte(e.name), Cookie: e.cookie, FileID: l.dir.ino}
		var is look
		if n, err := l.fs.dotChild(l.op, l.dir, entry.Name, &is); err == nil {
			entry.FileID = n.ino
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

// rest emits the entries that the kernel lists after cookie, which is 2 or more.
func (l *listing) rest(cookie uint64) (bool, error) {
	s := l.dir.streams.take(cookie)
	if s == nil {
		fd, err := l.fs.openDir(l.op, l.dir)
		if err != nil {
			return false, err
		}
		s = &dirStream{fd: fd, at: dotDotCookie, count: &l.fs.stats.streams}
		s.count.Add(1)
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
	return eof, nil
}

// restByPlace emits the entries after cookie on a file system whose d_off stays valid.
func (l *listing) restByPlace(s *dirStream, cookie uint64) (eof bool, err error) {
	// The descriptor may have buffered entries after cookie that an earlier call read; they may be
	// out of date. The seek discards them.
	if _, err := unix.Seek(s.fd, int64(cookie-dotDotCookie), unix.SEEK_SET); err != nil {
		if err == syscall.EINVAL {
			err = vfs.ErrBadCookie
		}
		return false, err
	}
	s.at = cookie
	return l.read(s)
}

func (fs *FS) openDir(op *vfs.Op, d *node) (int, error) {
	fs.makeRoomToOpen()
	fd, err := fs.reopenWithRoom(d.fd, unix.O_RDONLY|unix.O_DIRECTORY)
	if err == syscall.EACCES {
		err = fs.as(op.Cred, func() (err error) {
			fd, err = fs.reopen(d.fd, unix.O_RDONLY|unix.O_DIRECTORY)
			return err
		})
	}
	if err == syscall.ENOENT {
		err = syscall.ESTALE
	}
	return fd, err
}

// Offsets, in bytes, of the fields of linux_dirent64: inode (8 bytes), offset (8), length (2),
// type (1), name.
const (
	direntIno  = 0
	direntOff  = 8
	direntLen  = 16
	direntName = 19
)

// A dirent is an entry as the kernel lists it. A nil name marks the end.
type dirent struct {
	ino, off uint64
	name     []byte
}

func nextDirent(b []byte) (e dirent, rest []byte) {
	if len(b) <= direntName {
		return e, nil
	}
	size := int(binary.NativeEndian.Uint16(b[direntLen:]))
	if size <= direntName || size > len(b) {
		return e, nil
	}
	e.ino = binary.NativeEndian.Uint64(b[direntIno:])
	e.off = binary.NativeEndian.Uint64(b[direntOff:])
	e.name = b[direntName:size]
	if i := bytes.IndexByte(e.name, 0); i >= 0 {
		e.name = e.name[:i]
	}
	return e, b[size:]
}

func (l *listing) read(s *dirStream) (eof bool, err error) {
	buf := direntBuffers.Get().(*[]byte)
	defer direntBuffers.Put(buf)
	room := *buf
	if l.plus {
		room = room[:plusAtOnce]
	}
	var entry vfs.DirEntry
	for {
		n, err := sysGetdents(s.fd, room)
		if err != nil {
			return false, err
		}
		if n == 0 {
			return true, nil
		}
		for e, rest := nextDirent(room[:n]); e.name != nil; e, rest = nextDirent(rest) {
			if vfs.IsDot(e.name) {
				continue
			}
			entry = vfs.DirEntry{Name: e.name, FileID: e.ino, Cookie: cookieOf(e.off)}
			if l.plus && !l.attributes(&entry) {
				continue // the entry was removed meanwhile
			}
			if !l.hand(&entry) {
				return false, nil
			}
			s.at = entry.Cookie
		}
	}
}

// cookieOf converts the kernel's d_off to a cookie.
func cookieOf(off uint64) uint64 {
	if off == 0 || off > endCookie-dotDotCookie {
		return endCookie
	}
	return off + dotDotCookie
}
