package local

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// On overlayfs the kernel makes a list of entries for each descriptor, and d_off is a position in
// that list. After a change of the directory, or with another descriptor, the same position may
// belong to another entry. So there the cookie is a hash of the entry's name, and entries are
// listed in the order of their cookies. A listing then continues correctly even if entries were
// added or removed meanwhile, or the daemon restarted.

// namesAhead is the largest number of next entries that a stream keeps. After it has returned all
// of them, it reads the whole directory again.
const namesAhead = 1 << 11

// A namedEntry is an entry of a listing by name.
type namedEntry struct {
	cookie, ino uint64
	name        []byte
}

// cookieOfName returns a cookie between dotDotCookie and endCookie. The hash makes it infeasible
// to find two names with the same cookie; otherwise a user could make a name that hides another
// user's file.
func cookieOfName(name []byte) uint64 {
	sum := sha256.Sum256(name)
	return binary.BigEndian.Uint64(sum[:])>>2 + dotDotCookie + 1
}

// restByName emits the entries after cookie, which is 2 or more.
func (l *listing) restByName(s *dirStream, cookie uint64) (eof bool, err error) {
	if s.at != cookie || cookie == dotDotCookie {
		s.ahead, s.last = nil, false
	}
	s.at = cookie
	for {
		for len(s.ahead) > 0 {
			e := &s.ahead[0]
			entry := vfs.DirEntry{Name: e.name, FileID: e.ino, Cookie: e.cookie}
			if (!l.plus || l.attributes(&entry)) && !l.hand(&entry) {
				return false, nil
			}
			s.at, s.ahead = e.cookie, s.ahead[1:]
		}
		if s.last {
			return true, nil
		}
		if err := s.readAhead(); err != nil {
			return false, err
		}
	}
}

// readAhead reads the directory and keeps the first namesAhead entries after s.at, in the order of
// their cookies.
func (s *dirStream) readAhead() error {
	if _, err := unix.Seek(s.fd, 0, unix.SEEK_SET); err != nil {
		return err
	}
	buf := direntBuffers.Get().(*[]byte)
	defer direntBuffers.Put(buf)
	s.last = true
	keep := func() {
		slices.SortFunc(s.ahead, func(a, b namedEntry) int { return cmp.Compare(a.cookie, b.cookie) })
		if len(s.ahead) > namesAhead {
			s.ahead, s.last = slices.Clone(s.ahead[:namesAhead]), false
		}
	}
	for {
		n, err := sysGetdents(s.fd, *buf)
		if err != nil {
			return err
		}
		if n == 0 {
			keep()
			return nil
		}
		for e, rest := nextDirent((*buf)[:n]); e.name != nil; e, rest = nextDirent(rest) {
			if cookie := cookieOfName(e.name); cookie > s.at && !vfs.IsDot(e.name) {
				s.ahead = append(s.ahead, namedEntry{cookie, e.ino, slices.Clone(e.name)})
			}
		}
		if len(s.ahead) > 4*namesAhead {
			keep()
		}
	}
}
