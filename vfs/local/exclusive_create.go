package local

import (
	"encoding/binary"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// The verifier of an exclusive create (RFC 1813 §3.3.8) is kept in the new
// file's times until the client's SETATTR sets those: there it survives a
// restart. Half of it goes into either time: 31 bits into the seconds, which
// not every file system can store with a 32nd, and the top bit into the
// fraction.

// The fraction says the top bit with room for rounding. 0 says nothing: a file
// system that keeps no fractions stored the time, and the top bit is lost.
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

// exclusiveMatches says that st is a file which an exclusive create with v made
// and that was not used since.
func exclusiveMatches(st *unix.Stat_t, v [8]byte) bool {
	mark := exclusiveAttr(v)
	same := func(t unix.Timespec, mark vfs.Time) bool {
		return t.Sec == mark.Sec && (t.Nsec == int64(mark.Nsec) || t.Nsec == 0)
	}
	return st.Size == 0 && same(st.Atim, mark.Atime) && same(st.Mtim, mark.Mtime)
}

// makeMarked makes a file that has the mode in s, and the marks of an exclusive
// create from the moment on that it has its name: a process that is killed in
// between leaves nothing. A file system without unnamed files gets the name first.
func (fs *FS) makeMarked(op *vfs.Op, c *dirChange, name []byte, s, mark *vfs.SetAttr) (fd int, err error) {
	d := c.d
	times := [2]unix.Timespec{timeToSet(mark.AtimeHow, mark.Atime), timeToSet(mark.MtimeHow, mark.Mtime)}
	err = fs.as(op.Cred, func() (err error) {
		if !fs.noUnnamed.Load() {
			// The name first: a create that is repeated takes no room on the disk.
			var st unix.Stat_t
			if unix.Fstatat(d.fd, string(name), &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
				return syscall.EEXIST
			}
			fd, err = sysOpenat2(d.fd, dot, newFile|unix.O_TMPFILE, uint64(modeOf(s)), 0)
			switch err {
			case nil:
				if err = sysUtimens(fd, &times); err == nil {
					err = c.call(func() error { return sysLink(fs.proc, fd, d.fd, name) })
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
		err = c.call(func() (err error) {
			fd, err = sysOpenat2(d.fd, name, newFile|unix.O_CREAT|unix.O_EXCL, uint64(modeOf(s)), 0)
			return err
		})
		if err == nil {
			c.apart = true
			if err = sysUtimens(fd, &times); err != nil {
				unix.Close(fd)
			}
		}
		return err
	})
	return fd, err
}
