package local

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// On overlayfs a place in a directory is one in a list that the kernel makes for each
// descriptor: with another descriptor, or when the directory has changed, the same place is
// before another entry. There the cookie is made of the entry's name, and entries are listed
// in the order of their cookies. So a listing goes on where it was left, whatever has come
// and gone meanwhile and whether or not the daemon was started anew.

// namesAhead is how many entries a stream keeps that come next. One that has given them all
// away reads the whole directory again.
const namesAhead = 1 << 11

// A namedEntry is an entry of such a listing.
type namedEntry struct {
	cookie, ino uint64
	name        []byte
}

// cookieOfName is between dotDotCookie and endCookie. No two names have the same: a user
// who could make such names could hide the other user's file.
func cookieOfName(name []byte) uint64 {
	sum := sha256.Sum256(name)
	return binary.BigEndian.Uint64(sum[:])>>2 + dotDotCookie + 1
}

// restByName emits what comes after cookie, which is 2 or more.
func (l *listing) restByName(s *dirStream, cookie uint64) (eof bool, err error) {
	if s.at != cookie || cookie == dotDotCookie {
		s.ahead, s.last = nil, false
	}
	s.at = cookie
	for {
		for len(s.ahead) > 0 {
			e := &s.ahead[0]
			entry := vfs.DirEntry{Name: e.name, FileID: e.ino, Cookie: e.cookie}
			there := true
			if l.plus {
				_, there = l.attributes(&entry)
			}
			if there && !l.hand(&entry) {
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

// readAhead reads the directory for the entries that come next after s.at.
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
