package local

import (
	"math"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// mayUseData returns nil if the caller may read a file's data, or write it if write is set. It
// asks the kernel, and adds two rules of NFSv3, which has no call to open a file (RFC 1813 §4.4):
// the owner may do both, and a caller that may execute may read.
func (fs *FS) mayUseData(op *vfs.Op, n *node, is *look, write bool) error {
	if fs.owns(op.Cred, &is.Stat_t) {
		return nil
	}
	want := mayRead | mayExec
	if write {
		want = mayWrite
	}
	has, err := fs.rights(op, n, is, want)
	if err == nil && has == 0 {
		err = syscall.EACCES
	}
	return err
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
func (fs *FS) read(op *vfs.Op, n *node, offset uint64, buf []byte, a *vfs.Attr, judged bool) (_ int, _ bool, err error) {
	var is look
	if !judged {
		if err = fs.lookAndJudge(op, n, &is, false); err != nil {
			return 0, false, err
		}
	}
	f, err := fs.file(op, n, false)
	if err != nil {
		return 0, false, err
	}
	defer fs.giveBackFile(op, f)
	quiet := fs.readsQuietly(n)
	if op.Try && !quiet && !fs.kind.pages {
		return 0, false, vfs.ErrWouldBlock
	}
	got, ended, err := fs.fetch(op, f.fd, offset, buf)
	if err != nil {
		return 0, false, err
	}
	end := offset + uint64(got)
	// The attributes read above are still valid if the read did not wait and nothing changed.
	// Otherwise read them now.
	if judged || !op.Try || !quiet || !n.inode.version.still(is.change) || end > uint64(is.Size) {
		if err = fs.lookAndJudge(op, n, &is, judged); err != nil {
			return 0, false, err
		}
	}
	if op.Try && got < len(buf) && end < uint64(is.Size) {
		return 0, false, vfs.ErrWouldBlock // the rest is not in memory
	}
	n.fill(a, &is)
	if !quiet {
		fs.wasRead(n, &is)
	}
	return got, ended || end >= uint64(is.Size), nil
}

// lookAndJudge reads n's attributes. Unless judged is set, it also checks that the caller may read
// n's data.
func (fs *FS) lookAndJudge(op *vfs.Op, n *node, is *look, judged bool) error {
	err := fs.look(op, n, is)
	if err == nil && !judged {
		err = fs.mayUseData(op, n, is, false)
	}
	return err
}

// fetch reads from an open file. ended reports EOF: the file ends after the bytes read. ended is
// always false if op.Try is set. If an error stops a read after some bytes, fetch returns these
// bytes without the error; the next call returns the error.
func (fs *FS) fetch(op *vfs.Op, fd int, offset uint64, buf []byte) (got int, ended bool, err error) {
	if offset >= math.MaxInt64 {
		return 0, false, nil
	}
	// The kernel refuses a read beyond its last offset.
	buf = buf[:min(uint64(len(buf)), math.MaxInt64-offset)]
	if op.Try {
		got, err = fs.readCached(fd, buf, int64(offset))
		return got, false, err
	}
	return readAll(fd, buf, int64(offset))
}

// readCached reads only data that is in memory. If none is, it returns ErrWouldBlock.
func (fs *FS) readCached(fd int, buf []byte, offset int64) (int, error) {
	flags := unix.RWF_NOWAIT
	if fs.kind.pages {
		flags = 0
	}
	if flags != 0 && fs.noTryReads.Load() {
		return 0, vfs.ErrWouldBlock
	}
	n, err := sysPreadv2(fd, buf, offset, flags)
	if err == syscall.EOPNOTSUPP {
		fs.noTryReads.Store(true)
	}
	if err == syscall.EAGAIN || err == syscall.EOPNOTSUPP {
		err = vfs.ErrWouldBlock
	}
	return n, err
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

// maxIovecs is the kernel's IOV_MAX.
const maxIovecs = 1024

var iovecs = sync.Pool{New: func() any { s := make([]unix.Iovec, 0, 64); return &s }}

// Write implements vfs.FileSystem.
func (fs *FS) Write(op *vfs.Op, h vfs.Handle, offset uint64, data [][]byte, stable vfs.Stability) (int, vfs.Stability, vfs.Change, error) {
	if fs.readOnly {
		return 0, 0, vfs.Change{}, syscall.EROFS
	}
	n, err := fs.node(op, h)
	if err != nil {
		return 0, 0, vfs.Change{}, err
	}
	defer fs.giveBack(op, n)
	if err = n.regular(); err != nil {
		return 0, 0, vfs.Change{}, err
	}
	return fs.writeAndSync(op, n, offset, data, stable, false)
}

// writeAndSync writes to n, a regular file. If judged is true, it does not check the caller's
// rights: see read.
func (fs *FS) writeAndSync(op *vfs.Op, n *node, offset uint64, data [][]byte, stable vfs.Stability, judged bool) (done int, _ vfs.Stability, ch vfs.Change, err error) {
	total := 0
	for _, p := range data {
		total += len(p)
	}
	if offset > math.MaxInt64 || offset+uint64(total) > math.MaxInt64 {
		return 0, 0, ch, syscall.EFBIG
	}
	if op.Try && (stable != vfs.Unstable && !fs.volatile || fs.noTryWrites.Load()) {
		return 0, 0, ch, vfs.ErrWouldBlock
	}
	if err = fs.makeRoomForData(op, n); err != nil {
		return 0, 0, ch, err
	}
	m := n.mark()
	if done, err = fs.write(op, n, int64(offset), data, total, &ch, judged); err != nil {
		return 0, 0, ch, err
	}
	if stable == vfs.Unstable {
		return done, stable, ch, nil
	}
	// DATA_SYNC is treated as FILE_SYNC here, so all attributes become stable, too. Few clients ask
	// for DATA_SYNC, and after a sync of the data alone the file would have to stay open until the
	// rest is synced.
	if err = fs.syncSince(m); err != nil {
		return 0, 0, ch, err
	}
	return done, vfs.FileSync, ch, nil
}

// write writes the data to n, and stores n's attributes before and after the write in ch.
func (fs *FS) write(op *vfs.Op, n *node, offset int64, data [][]byte, total int, ch *vfs.Change, judged bool) (int, error) {
	if !n.inode.lock(op) {
		return 0, vfs.ErrWouldBlock
	}
	defer n.inode.mu.Unlock()
	var is look
	if err := fs.look(op, n, &is); err != nil {
		return 0, err
	}
	if !judged {
		if err := fs.mayUseData(op, n, &is, true); err != nil {
			return 0, err
		}
	}
	if op.Try && is.Mode&(unix.S_ISUID|unix.S_ISGID) != 0 {
		return 0, vfs.ErrWouldBlock // the write clears these bits, which changes the inode
	}
	as := fs.writesAs(op.Cred, &is.Stat_t, total)
	if as != nil && op.Try {
		return 0, vfs.ErrWouldBlock
	}
	f, err := fs.file(op, n, true)
	if err != nil {
		return 0, err
	}
	defer fs.giveBackFile(op, f)
	c := fs.before(n, &is, ch)
	done := 0
	if total > 0 {
		if as == nil {
			done, err = fs.store(op, f.fd, offset, data)
		} else {
			done, err = fs.storeAs(as, op, f.fd, offset, data)
		}
		if done > 0 {
			n.wrote()
		}
		if done > 0 {
			fs.clearSetID(op.Cred, f.fd, &is.Stat_t)
		}
	}
	_ = c.after(done > 0, &is)
	if done == 0 && total > 0 || err == vfs.ErrWouldBlock {
		*ch = vfs.Change{}
		return 0, err
	}
	return done, nil
}

// store writes as many bytes of data, from offset on, as it can. Apart from ErrWouldBlock, it
// returns an error only if it wrote nothing.
func (fs *FS) store(op *vfs.Op, fd int, offset int64, data [][]byte) (int, error) {
	pool := iovecs.Get().(*[]unix.Iovec)
	iov := (*pool)[:0]
	for _, p := range data {
		if len(p) > 0 {
			iov = append(iov, unix.Iovec{Base: &p[0], Len: uint64(len(p))})
		}
	}
	all := iov
	defer func() {
		clear(all[:cap(all)])
		*pool = all[:0]
		iovecs.Put(pool)
	}()
	flags := 0
	if op.Try && !fs.kind.pages {
		flags = unix.RWF_NOWAIT
	}
	done := 0
	for len(iov) > 0 {
		n, err := sysPwritev2(fd, iov[:min(len(iov), maxIovecs)], offset+int64(done), flags)
		if flags != 0 && err == syscall.EOPNOTSUPP {
			fs.noTryWrites.Store(true)
		}
		if flags != 0 && (err == syscall.EAGAIN || err == syscall.EOPNOTSUPP) {
			// If a part was written, the caller's next call, without Op.Try, writes it again.
			return done, vfs.ErrWouldBlock
		}
		if err != nil && done == 0 {
			return 0, err
		}
		if err != nil || n == 0 {
			break
		}
		done += n
		for n > 0 {
			if take := min(uint64(n), iov[0].Len); take == iov[0].Len {
				iov = iov[1:]
				n -= int(take)
			} else {
				iov[0].Base = advance(iov[0].Base, take)
				iov[0].Len -= take
				n = 0
			}
		}
	}
	if done == 0 {
		return 0, syscall.EIO // the kernel wrote nothing and reported no error
	}
	return done, nil
}

// Commit implements vfs.FileSystem. It syncs the whole file, whatever the range.
func (fs *FS) Commit(op *vfs.Op, h vfs.Handle, _ uint64, _ uint32) (vfs.Change, error) {
	n, err := fs.node(op, h)
	if err != nil {
		return vfs.Change{}, err
	}
	defer fs.giveBack(op, n)
	if err = n.regular(); err != nil {
		return vfs.Change{}, err
	}
	return fs.commit(op, n, false)
}

// commit syncs n, a regular file. If judged is not set (see read), commit checks that op.Cred may
// write, unless this user has the file open for writing.
func (fs *FS) commit(op *vfs.Op, n *node, judged bool) (ch vfs.Change, err error) {
	m := n.mark()
	var is look
	if err = fs.look(op, n, &is); err != nil {
		return ch, err
	}
	n.fill(&ch.Before, &is)
	if op.Try && n.inode.durability.dirty() {
		return vfs.Change{}, vfs.ErrWouldBlock
	}
	if !judged && !n.files.openToWrite(op.Cred.UID) {
		if err = fs.mayUseData(op, n, &is, true); err != nil {
			return vfs.Change{}, err
		}
	}
	if !op.Try {
		if err = fs.syncSince(m); err != nil {
			return vfs.Change{}, err
		}
	}
	ch.HasBefore = true
	if fs.look(op, n, &is) == nil {
		n.fill(&ch.After, &is)
		ch.HasAfter = true
	}
	return ch, nil
}
