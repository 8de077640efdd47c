package local

import (
	"math"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// mayUseData returns nil if the caller may read a file's data, or write it if write is set. It
// asks the kernel, and adds two rules of NFSv3, which has no call to open a file (RFC 1813 §4.4):
// the owner may do both, and a caller that may execute may read.
func (fs *FS) mayUseData(op *vfs.Op, n *node, is *look, write bool) error {
	if fs.identity.owns(op.Cred, &is.Stat_t) {
		return nil
	}
	if write {
		return fs.require(op, n, is, mayWrite)
	}
	return fs.require(op, n, is, mayRead|mayExec)
}

// openAsOwner opens a file whose mode denies access to its owner, because NFS lets the owner read
// and write it nevertheless. It is for a daemon that cannot override modes: acting as the owner,
// it adds the right to the mode for a moment.
func (fs *FS) openAsOwner(op *vfs.Op, n *node, flags int) (fd int, err error) {
	n.inode.modes.Lock()
	defer n.inode.modes.Unlock()
	var st unix.Stat_t
	if err = sysFstat(n.fd, &st); err != nil {
		return -1, err
	}
	if !fs.identity.owns(op.Cred, &st) {
		return -1, syscall.EACCES
	}
	mode := st.Mode & 0o7777
	n.inode.version.before()
	defer n.inode.version.after(true, nil)
	err = fs.identity.as(op.Cred, func() error {
		err := fs.chmod(n.fd, mode|unix.S_IRUSR|unix.S_IWUSR)
		if err != nil {
			return syscall.EACCES
		}
		if fd, err = fs.reopen(n.fd, flags); err != nil {
			fd = -1
		}
		if back := fs.chmod(n.fd, mode); back != nil && err == nil {
			unix.Close(fd)
			fd, err = -1, back
		}
		return err
	})
	return fd, err
}

// regular returns nil for a regular file, and otherwise the error of an access to its data.
func (n *node) regular() error {
	switch n.typ {
	case vfs.Regular:
		return nil
	case vfs.Directory:
		return syscall.EISDIR
	}
	return syscall.EINVAL
}

// Read implements vfs.FileSystem. It checks the caller's rights before it reads, because a read
// changes the file's atime and waits for the disk.
func (fs *FS) Read(op *vfs.Op, h vfs.Handle, offset uint64, buf []byte, a *vfs.Attr) (int, bool, error) {
	n, err := fs.node(op, h)
	if err != nil {
		return 0, false, err
	}
	defer fs.giveBack(op, n)
	if err = n.regular(); err != nil {
		return 0, false, err
	}
	return fs.read(op, n, offset, buf, a, false)
}

// read reads from n, a regular file. judged is true if the caller has the file open. Then read
// checks no permission, because Open has checked it.
//
// The attributes are read before the bytes, and bytes beyond their size are left out. So the bytes
// are never older than the Change, and eof never stands beside a larger size, even if the file grows
// meanwhile. A client would fill the space up to the larger size with zeros.
func (fs *FS) read(op *vfs.Op, n *node, offset uint64, buf []byte, a *vfs.Attr, judged bool) (int, bool, error) {
	var first uint64
	for try := range tries {
		var is look
		if err := fs.lookAndJudge(op, n, &is, judged); err != nil {
			return 0, false, err
		}
		quiet := fs.readsQuietly(n)
		if op.Try && !quiet && !fs.kind.pages {
			return 0, false, vfs.ErrWouldBlock
		}
		got, ended, err := fs.readFile(op, n, offset, buf)
		if err != nil {
			return 0, false, err
		}
		left := uint64(is.Size) - min(offset, uint64(is.Size))
		got = int(min(uint64(got), left))
		short := got < len(buf) && uint64(got) < left
		if short && op.Try {
			return 0, false, vfs.ErrWouldBlock // the rest is not in memory
		}
		if try == 0 {
			first = is.change
		}
		if short && ended && (try < tries-1 || !is.still || is.change != first) {
			continue // the file was cut after its attributes were read
		}
		// If the file has not changed in all these tries, the file system reports a size that is not
		// the content's, and only the read finds the end.
		if !quiet {
			fs.wasRead(n, &is)
		}
		n.fill(a, &is)
		return got, uint64(got) == left || ended && short, nil
	}
	return 0, false, vfs.ErrDelay
}

// readFile opens n, if it is not open, and reads from it: see fetch.
func (fs *FS) readFile(op *vfs.Op, n *node, offset uint64, buf []byte) (int, bool, error) {
	f, err := fs.file(op, n, false)
	if err != nil {
		return 0, false, err
	}
	defer fs.giveBackFile(op, f)
	return fs.fetch(op, f.fd, offset, buf)
}

// lookAndJudge reads n's attributes, and checks that the caller may read n's data unless judged is set.
func (fs *FS) lookAndJudge(op *vfs.Op, n *node, is *look, judged bool) error {
	err := fs.look(op, n, is)
	if err == nil && !judged {
		err = fs.mayUseData(op, n, is, false)
	}
	return err
}

// fetch reads from an open file. ended reports EOF: the file ends after the bytes read. If op.Try is
// set, fetch reads only data that is in memory, and ended is always false. If no data is in memory,
// it returns ErrWouldBlock. If an error stops a read after some bytes, fetch returns these bytes
// without the error; the next call returns the error.
func (fs *FS) fetch(op *vfs.Op, fd int, offset uint64, buf []byte) (got int, ended bool, err error) {
	if offset >= math.MaxInt64 {
		return 0, false, nil
	}
	// The kernel refuses a read beyond its last offset.
	buf = buf[:min(uint64(len(buf)), math.MaxInt64-offset)]
	if !op.Try {
		return readAll(fd, buf, int64(offset))
	}
	flags := unix.RWF_NOWAIT
	if fs.kind.pages {
		flags = 0
	} else if fs.noTryReads.Load() {
		return 0, false, vfs.ErrWouldBlock
	}
	got, err = sysPreadv2(fd, buf, int64(offset), flags)
	if err == syscall.EOPNOTSUPP {
		fs.noTryReads.Store(true)
	}
	if err == syscall.EAGAIN || err == syscall.EOPNOTSUPP {
		err = vfs.ErrWouldBlock
	}
	return got, false, err
}

// readAll reads until buf is full, the file ends, or an error comes.
func readAll(fd int, buf []byte, offset int64) (got int, ended bool, err error) {
	for got < len(buf) {
		n, err := sysPreadv2(fd, buf[got:], offset+int64(got), 0)
		switch {
		case err != nil && got == 0:
			return 0, false, err
		case err != nil:
			return got, false, nil
		case n == 0:
			return got, true, nil
		}
		got += n
	}
	return got, false, nil
}

// sysPreadv2 reads into one buffer.
func sysPreadv2(fd int, buf []byte, offset int64, flags int) (int, error) {
	if len(buf) == 0 {
		return 0, nil
	}
	iov := unix.Iovec{Base: &buf[0], Len: uint64(len(buf))}
	for {
		n, _, e := syscall.Syscall6(unix.SYS_PREADV2, uintptr(fd), uintptr(unsafe.Pointer(&iov)), 1, uintptr(offset), 0, uintptr(flags))
		if e != syscall.EINTR {
			return int(n), errnoErr(e)
		}
	}
}

// quietReads records that reads of a node do not update its atime for now. A read makes the kernel
// update atime, even with RWF_NOWAIT, and on a file system with a log this update waits for the disk
// whenever the log does. Therefore a call with Op.Try makes no read that may update atime, as far as
// the FS knows: a change that another process has just made shows only in attributes read later.
type quietReads struct {
	change atomic.Uint64 // the record is valid only while this is the inode's Change
	until  atomic.Uint32 // and only while the number of the sweeper's round is lower than this
}

const day = 24 * time.Hour

// readKind is the mount's rule for atime.
type readKind uint8

const (
	// relatime: at a read, the kernel updates atime if the file has changed since the last update
	// of atime, or if that update was a day ago or more.
	relatime readKind = iota
	// noatime: the kernel never writes atime.
	noatime
	// strictatime: the kernel writes atime at each read.
	strictatime
)

func readKindOf(s *unix.Statfs_t) readKind {
	switch {
	case s.Flags&(unix.ST_NOATIME|unix.ST_RDONLY) != 0:
		return noatime
	case s.Flags&unix.ST_RELATIME != 0:
		return relatime
	}
	return strictatime
}

// readsQuietly reports whether it is known that a read of n leaves its atime unchanged.
func (fs *FS) readsQuietly(n *node) bool {
	q := &n.quiet
	return readKind(fs.reads.Load()) == noatime || n.inode.version.still(q.change.Load()) && fs.nodes.round.Load() < q.until.Load()
}

// wasRead is called after a read of n that may have updated its atime. It reads the attributes again,
// and if n is still in the state that is names, stores them in is, for the new atime. If further reads
// leave the atime unchanged, it records that in n.quiet.
func (fs *FS) wasRead(n *node, is *look) {
	var st look
	if !is.still || n.stat(&st) != nil || !st.still || st.change != is.change {
		return
	}
	*is = st
	if readKind(fs.reads.Load()) != relatime {
		return
	}
	atime := time.Unix(st.Atim.Unix())
	left := day - fs.now().Sub(atime)
	if left <= 0 || !atime.After(time.Unix(st.Mtim.Unix())) || !atime.After(time.Unix(st.Ctim.Unix())) {
		return // the next read updates atime, too
	}
	q := &n.quiet
	if q.change.Load() != st.change {
		q.change.Store(st.change)
	}
	if until := fs.nodes.round.Load() + uint32(left/sweepEvery); q.until.Load() != until {
		q.until.Store(until)
	}
}
