package local

import (
	"encoding/binary"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// The verifier of an exclusive create (RFC 1813 §3.3.8) is kept in the new
// file's times until the client's SETATTR sets those: there it survives a
// restart. Half of it goes into the seconds of either time, without the top
// bit, which not every file system can store; fractions of a second would get
// lost on some.

func exclusiveTimes(v [8]byte) (atime, mtime int64) {
	return int64(binary.BigEndian.Uint32(v[4:]) & 0x7fffffff), int64(binary.BigEndian.Uint32(v[:]) & 0x7fffffff)
}

func exclusiveAttr(v [8]byte) *vfs.SetAttr {
	a, m := exclusiveTimes(v)
	return &vfs.SetAttr{AtimeHow: vfs.ClientTime, Atime: vfs.Time{Sec: a}, MtimeHow: vfs.ClientTime, Mtime: vfs.Time{Sec: m}}
}

// exclusiveMatches says that st is a file which an exclusive create with v made
// and nobody has touched since.
func exclusiveMatches(st *unix.Stat_t, v [8]byte) bool {
	a, m := exclusiveTimes(v)
	return st.Size == 0 && st.Atim.Sec == a && st.Mtim.Sec == m && st.Mtim.Nsec == 0
}

// makeMarked makes a file that has the marks of an exclusive create from the
// moment on that it has its name: a process that is killed in between leaves
// nothing. A file system without unnamed files gets the name first.
func (fs *FS) makeMarked(op *vfs.Op, d *node, name []byte, mark *vfs.SetAttr) (fd int, err error) {
	times := [2]unix.Timespec{timeToSet(mark.AtimeHow, mark.Atime), timeToSet(mark.MtimeHow, mark.Mtime)}
	err = fs.as(op.Cred, func() (err error) {
		if !fs.noUnnamed.Load() {
			fd, err = sysOpenat2(d.fd, dot, newFile|unix.O_TMPFILE, uint64(modeOf(mark)), 0)
			switch err {
			case nil:
				if err = sysUtimens(fd, &times); err == nil {
					err = sysLink(fs.proc, fd, d.fd, name)
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
		fd, err = sysOpenat2(d.fd, name, newFile|unix.O_CREAT|unix.O_EXCL, uint64(modeOf(mark)), 0)
		if err == nil {
			if err = sysUtimens(fd, &times); err != nil {
				unix.Close(fd)
			}
		}
		return err
	})
	return fd, err
}
