package local

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// On overlayfs d_off is a position in a list of entries that the kernel makes for each descriptor.
// After a change of the directory, or with another descriptor, the position may belong to another
// entry. So there the cookie is a hash of the entry's name, and entries are listed in the order of
// their cookies. A listing continues correctly after changes and after a restart of the daemon.

// cookieOfName returns a cookie between dotDotCookie and endCookie: 62 bits of a hash. A user needs some
// 2^31 tries to find two names with one cookie, and listings may then show only one of the two. But
// that hides a name of the same user. To hide the name of another user's file takes some 2^62 tries.
func cookieOfName(name []byte) uint64 {
	sum := sha256.Sum256(name)
	return binary.BigEndian.Uint64(sum[:])>>2 + dotDotCookie + 1
}

// namesAhead holds the next entries of a listing in the order of their cookies. It is filled by reading
// the whole directory. If not all of the following entries find room in it, it holds those with the
// lowest cookies, and the directory has to be read again for the others.
type namesAhead struct {
	entries []aheadName // sorted by cookie
	names   []byte      // the names of entries, one after the other
	last    bool        // true if no entries follow
	cost    int64       // bytes that were taken by FS.takeNames
}

// An aheadName is an entry; names[start:start+size] is its name.
type aheadName struct {
	cookie, ino uint64
	start       uint32
	size        uint8
}

// fewAhead is the number of entries for which a namesAhead has room even if takeNames refuses memory
// for more, and manyAhead the largest number. aheadSize is the memory of an entry without its name,
// in bytes.
const fewAhead, manyAhead, aheadSize = 1 << 11, 1 << 20, 24

func (a *namesAhead) name(e *aheadName) []byte { return a.names[e.start:][:e.size] }

// forget empties a.
func (a *namesAhead) forget(fs *FS) {
	fs.giveNames(a.cost)
	*a = namesAhead{}
}

// read reads the directory open on fd, and keeps the entries after the cookie at.
func (a *namesAhead) read(fs *FS, fd int, at uint64) error {
	a.forget(fs)
	fs.stats.wholeReads.Add(1)
	if _, err := sysSeek(fd, 0, unix.SEEK_SET); err != nil {
		return err
	}
	buf := direntBuffers.Get().(*[]byte)
	defer direntBuffers.Put(buf)
	a.last = true
	room, below := 2*fewAhead, uint64(math.MaxUint64)
	for e, err := range dirents(fd, *buf) {
		if err != nil {
			return err
		}
		cookie := cookieOfName(e.name)
		if cookie <= at || cookie > below {
			continue
		}
		if len(a.entries) == room {
			if more := int64(room)*aheadSize + int64(len(a.names)); room < manyAhead && fs.takeNames(more) {
				a.cost += more
				room *= 2
			} else {
				a.cut(room / 2)
				below = a.entries[len(a.entries)-1].cookie
				if cookie > below {
					continue
				}
			}
		}
		a.entries = append(a.entries, aheadName{cookie: cookie, ino: e.ino, start: uint32(len(a.names)), size: uint8(len(e.name))})
		a.names = append(a.names, e.name...)
	}
	if a.last {
		a.sort()
	} else {
		a.cut(min(room/2, len(a.entries)))
	}
	return nil
}

func (a *namesAhead) sort() {
	slices.SortFunc(a.entries, func(x, y aheadName) int { return cmp.Compare(x.cookie, y.cookie) })
}

// cut keeps the given number of entries: those with the lowest cookies.
func (a *namesAhead) cut(most int) {
	a.sort()
	a.entries, a.last = a.entries[:most], false
	names := make([]byte, 0, cap(a.names))
	for i := range a.entries {
		e := &a.entries[i]
		start := uint32(len(names))
		names = append(names, a.name(e)...)
		e.start = start
	}
	a.names = names
}

// restByName emits the entries after cookie, which is 2 or more.
func (l *listing) restByName(s *dirStream, cookie uint64) (eof bool, err error) {
	if s.at != cookie || cookie == dotDotCookie {
		s.ahead.forget(l.fs)
	}
	s.at = cookie
	for {
		for len(s.ahead.entries) > 0 {
			e := &s.ahead.entries[0]
			entry := vfs.DirEntry{Name: s.ahead.name(e), FileID: e.ino, Cookie: e.cookie}
			there := true
			if l.plus {
				_, there = l.attributes(&entry)
			}
			if there && !l.hand(&entry) {
				return false, nil
			}
			s.at, s.ahead.entries = e.cookie, s.ahead.entries[1:]
		}
		if s.ahead.last {
			return true, nil
		}
		if err := s.ahead.read(l.fs, s.fd, s.at); err != nil {
			return false, err
		}
	}
}
