package local

import (
	"encoding/binary"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// The new file's times hold the verifier of an exclusive create (RFC 1813 §3.3.8) until the client
// sets the times; so the verifier survives a restart. Each time holds half of it: 31 bits in the
// seconds, because not every file system stores 32, and the top bit in the nanoseconds.

// topBitClear and topBitSet are the nanoseconds for a top bit of 0 and 1. They survive if a file
// system rounds times. If a file system stores no fractions of a second, the nanoseconds are 0 and
// the top bit is lost.
const (
	topBitClear = 250_000_000 // ns
	topBitSet   = 750_000_000
)

func exclusiveTime(half []byte) vfs.Time {
	v := binary.BigEndian.Uint32(half)
	t := vfs.Time{Sec: int64(v &^ (1 << 31)), Nsec: topBitClear}
	if v>>31 != 0 {
		t.Nsec = topBitSet
	}
	return t
}

func exclusiveAttr(v [8]byte) *vfs.SetAttr {
	return &vfs.SetAttr{AtimeHow: vfs.ClientTime, Atime: exclusiveTime(v[4:]), MtimeHow: vfs.ClientTime, Mtime: exclusiveTime(v[:4])}
}

// exclusiveMatches reports whether an exclusive create with verifier v made the file with
// attributes st, and the file is still empty and has the same times. Nanoseconds of 0 also match,
// because some file systems store whole seconds.
func exclusiveMatches(st *unix.Stat_t, v [8]byte) bool {
	mark := exclusiveAttr(v)
	same := func(t unix.Timespec, mark vfs.Time) bool {
		return t.Sec == mark.Sec && (t.Nsec == int64(mark.Nsec) || t.Nsec == 0)
	}
	return st.Size == 0 && same(st.Atim, mark.Atime) && same(st.Mtim, mark.Mtime)
}

// makeMarked makes a file with the mode in s. Its times hold the verifier from the moment it has a
// name, so that a process killed in between leaves no file without a verifier. On a file system
// without unnamed files (O_TMPFILE) the file gets its name before its times.
func (fs *FS) makeMarked(op *vfs.Op, c *dirChange, name []byte, s, mark *vfs.SetAttr) (fd int, err error) {
	d := c.d
	times := [2]unix.Timespec{timeToSet(mark.AtimeHow, mark.Atime), timeToSet(mark.MtimeHow, mark.Mtime)}
	err = fs.as(op.Cred, func() (err error) {
		if !fs.noUnnamed.Load() {
			// Look up the name first, so that a repeated create does not make another file, even
			// for a moment.
			var st unix.Stat_t
			if unix.Fstatat(d.fd, string(name), &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
				return syscall.EEXIST
			}
			fd, err = sysOpenat2(d.fd, dot, newFile|unix.O_TMPFILE, uint64(modeOf(s)), 0)
			switch err {
			case nil:
				if err = utimens(fd, &times); err == nil {
					err = c.call(func() error { return fs.link(fd, d.fd, name) })
				}
				if err != nil {
					unix.Close(fd)
				}
				return err
			case syscall.EOPNOTSUPP, syscall.EISDIR, syscall.EINVAL:
				fs.noUnnamed.Store(true)
			default:
				return err
			}
		}
		if fd, err = c.openNew(name, s); err == nil {
			c.apart = true
			if err = utimens(fd, &times); err != nil {
				unix.Close(fd)
			}
		}
		return err
	})
	return fd, err
}
