package local

import (
	"bytes"
	"encoding/binary"
	"iter"
	"slices"
	"sync"
	"syscall"
	"weak"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A dirStream is an open descriptor that lists a directory. A call that continues a listing uses
// the stream that an earlier call left at the listing's cookie.
type dirStream struct {
	fs   *FS
	fd   int
	at   uint64 // cookie of the last entry returned
	used uint32 // round of the sweeper (one a second) at the last use
	// ahead holds the next entries if listings are ordered by name (restByName).
	ahead namesAhead
}

func (s *dirStream) close() {
	s.ahead.forget(s.fs)
	unix.Close(s.fd)
	s.fs.holdings.listings.Add(-1)
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

// any reports whether a stream is idle.
func (s *dirStreams) any() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.idle) > 0
}

// drop closes the streams that were unused for patience rounds before round, and returns how many.
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

func (fs *FS) openDir(op *vfs.Op, d *node) (int, error) {
	fs.makeRoomToOpen()
	fd, err := fs.reopenWithRoom(d.fd, unix.O_RDONLY|unix.O_DIRECTORY)
	if err == syscall.EACCES {
		fd, err = callAs(&fs.identity, op.Cred, func() (int, error) { return fs.reopen(d.fd, unix.O_RDONLY|unix.O_DIRECTORY) })
	}
	return fd, err
}

// Offsets of fields of linux_dirent64: inode (8 bytes), offset (8), length (2), type (1), name.
const (
	direntIno  = 0
	direntOff  = 8
	direntLen  = 16
	direntType = 18
	direntName = 19
)

// A dirent is an entry as the kernel lists it. A nil name marks the end.
type dirent struct {
	ino, off  uint64
	name      []byte
	directory bool // false if the file system does not tell
}

// dirents lists the directory open on fd, from the descriptor's position on, without "." and "..".
// Each read fills buf; an entry's name is valid until the next entry. An error ends the listing.
func dirents(fd int, buf []byte) iter.Seq2[dirent, error] {
	return func(yield func(dirent, error) bool) {
		for {
			var n int
			err := uninterrupted(func() (err error) { n, err = unix.Getdents(fd, buf); return err })
			if err != nil {
				yield(dirent{}, err)
			}
			if err != nil || n == 0 {
				return
			}
			for e, rest := nextDirent(buf[:n]); e.name != nil; e, rest = nextDirent(rest) {
				if !vfs.IsDot(e.name) && !yield(e, nil) {
					return
				}
			}
		}
	}
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
	e.directory = b[direntType] == unix.DT_DIR
	e.name = b[direntName:size]
	if i := bytes.IndexByte(e.name, 0); i >= 0 {
		e.name = e.name[:i]
	}
	return e, b[size:]
}

// A rememberedList is the beginning of the kernel's listing of a directory, in a dirMemory. While
// the directory has the Change of the dirMemory, no entry has been added, removed or moved since. A
// listing never shows a half-made change, because the kernel makes it wait until a running change of
// the directory ends. Attributes of entries are read anew each time.
type rememberedList struct {
	// entries only grows: a listing that has a slice of it may read on without the lock.
	entries []listedName
	whole   bool // true if the list is complete
	// The keys of ends are the cookies after which a listing may continue. Each value is the number
	// of entries up to and including the entry with this cookie.
	ends map[uint64]int
}

// A listedName is an entry of a directory. Only a rememberedList has its handle, and its node if it
// had one; the weak pointer does not keep the node in memory.
type listedName struct {
	name        []byte
	cookie, ino uint64
	handle      vfs.Handle
	node        weak.Pointer[node]
}

// unknownPlace stands for the position of a listing in the remembered list, if the listing
// continues from a cookie that the list does not have.
const unknownPlace = -1

// listFrom returns the remembered entries after cookie, whether they reach to the end of the directory
// (whole), and the number of entries before them (at). The caller has just read d's attributes.
func (d *node) listFrom(cookie uint64) (entries []listedName, whole bool, at int) {
	m := &d.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	r, still := &m.list, d.inode.version.still(m.change)
	at, ok := r.ends[cookie]
	if cookie == dotDotCookie {
		at, ok = 0, true
	} else if !still || !ok {
		return nil, false, unknownPlace
	}
	if !still {
		return nil, false, at
	}
	return r.entries[at:len(r.entries):len(r.entries)], r.whole, at
}

// add appends e, whose file is h, to the list, and returns the number of entries up to and including
// e. The last argument is the number of entries before e; if the list has more entries than that, it
// has e already. If m is about an earlier Change of the directory than l, add empties m if e is the
// directory's first entry. Otherwise the list gets no entry, and add returns unknownPlace. It also
// does so if l.settled is not set, or if a limit of names is reached.
func (m *dirMemory) add(l *listing, e *vfs.DirEntry, h vfs.Handle, at int) int {
	if at == unknownPlace || !l.settled {
		return unknownPlace
	}
	named := listedName{name: slices.Clone(e.Name), cookie: e.Cookie, ino: e.FileID, handle: h}
	if n := l.fs.nodes.cached(&h); n != nil {
		named.node = weak.Make(n)
		defer n.put() // after m.mu is unlocked, because put may close the node, which may block
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r, bytes := &m.list, int64(nameOverhead+len(named.name))
	if at == 0 {
		m.renewLocked(l.looks.change, l.fs)
	}
	switch {
	case m.change != l.looks.change || at > len(r.entries):
		return unknownPlace
	case at < len(r.entries):
		return at + 1
	case at >= maxDirNames || !l.fs.takeNames(bytes):
		return unknownPlace
	}
	m.bytes += bytes
	r.entries = append(r.entries, named)
	return at + 1
}

// ended records the position at which the listing l stopped, as the number of entries before it (the
// field at). The client may continue from there with cookie. eof is true if the listing reached the
// end of the directory; then ended only records whether the list is complete. Like add, it records
// nothing unless l.settled is set: otherwise a directory that was empty could get a name unnoticed.
func (m *dirMemory) ended(l *listing, cookie uint64, eof bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := &m.list
	if l.at == unknownPlace || !l.settled || m.change != l.looks.change || l.at > len(r.entries) {
		return
	}
	if eof {
		r.whole = l.at == len(r.entries)
		return
	}
	if r.ends == nil {
		r.ends = make(map[uint64]int)
	}
	r.ends[cookie] = l.at
}
