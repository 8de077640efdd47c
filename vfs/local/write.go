package local

import (
	"encoding/binary"
	"math"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

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
	if op.Try && (stable != vfs.Unstable && !fs.syncer.volatile || fs.noTryWrites.Load()) {
		return 0, 0, ch, vfs.ErrWouldBlock
	}
	if err = fs.syncer.makeRoomForData(op, n); err != nil {
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
	if err = m.sync(); err != nil {
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
	if !judged {
		if err = fs.checkFlags(n, f); err != nil {
			return 0, err
		}
	}
	c := n.before(&is, ch)
	done := 0
	if total > 0 {
		if as == nil {
			done, err = fs.store(op, f.fd, offset, data)
		} else {
			done, err = callAs(&fs.identity, as, func() (int, error) { return fs.store(op, f.fd, offset, data) })
		}
		if done > 0 {
			n.wrote()
			clearSetID(op.Cred, f.fd, &is.Stat_t)
		}
	}
	_ = c.after(done > 0, &is)
	if done == 0 && total > 0 || err == vfs.ErrWouldBlock {
		*ch = vfs.Change{}
		return 0, err
	}
	return done, nil
}

// checkFlags returns EPERM if n has become immutable or append-only (chattr(1)) since it was opened to
// write, as f. The kernel checks these flags only when a file is opened. A caller that has not opened
// the file itself, such as NFSv3, must not write then.
//
// It asks the kernel if another process is known to have changed the file since the last check. The
// change of a flag may be hidden by a write of this process at the same time; so it also asks every few
// seconds.
func (fs *FS) checkFlags(n *node, f *openFile) error {
	round, foreign := fs.nodes.round.Load(), n.inode.version.foreign.Load()
	if f.foreign.Load() == foreign && roundsSince(round, f.checked.Load()) < askAnew {
		return nil
	}
	var sx unix.Statx_t
	if err := sysStatx(n.fd, "", unix.AT_EMPTY_PATH, 0, &sx); err != nil {
		return err
	}
	if sx.Attributes&(unix.STATX_ATTR_IMMUTABLE|unix.STATX_ATTR_APPEND) != 0 {
		return syscall.EPERM
	}
	f.foreign.Store(foreign)
	f.checked.Store(round)
	return nil
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
				iov[0].Base = (*byte)(unsafe.Add(unsafe.Pointer(iov[0].Base), take))
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
		if err = m.sync(); err != nil {
			return vfs.Change{}, err
		}
	}
	fs.committed(n)
	ch.HasBefore = true
	if fs.look(op, n, &is) == nil {
		n.fill(&ch.After, &is)
		ch.HasAfter = true
	}
	return ch, nil
}

// sysPwritev2 writes the pieces in iov at offset.
func sysPwritev2(fd int, iov []unix.Iovec, offset int64, flags int) (int, error) {
	for {
		n, _, e := syscall.Syscall6(unix.SYS_PWRITEV2, uintptr(fd), uintptr(unsafe.Pointer(&iov[0])), uintptr(len(iov)),
			uintptr(offset), 0, uintptr(flags))
		if e != syscall.EINTR {
			return int(n), errnoErr(e)
		}
	}
}

// The daemon's thread writes data, after the caller's rights were checked. In two cases the kernel
// decides by the identity of the thread, which then has to act as the caller: for the set-gid bit
// without group execution, and for a file system's reserved blocks.

// markOnly reports whether a file has the set-gid bit without group execution. The bit then
// grants nothing: it marks the file for mandatory locking. The kernel clears it when the file is
// written or its owner changes, unless the writer may set it: a member of the file's group, or
// user 0 with CAP_FSETID.
func markOnly(mode uint32) bool {
	return mode&unix.S_IFMT == unix.S_IFREG && mode&(unix.S_ISGID|unix.S_IXGRP) == unix.S_ISGID
}

// keepsMark reports whether a write by c keeps the set-gid bit of a file for which markOnly holds.
// User 0 keeps it although the daemon has no CAP_FSETID (see DropCapabilities), because user 0 may
// be in any group.
func keepsMark(c *vfs.Cred, st *unix.Stat_t) bool { return c.UID == 0 || member(c, st.Gid) }

// writesAs returns the identity for a write by c of the given number of bytes to a file with
// attributes st, or for a truncation (bytes 0). nil means the daemon's own identity.
func (fs *FS) writesAs(c *vfs.Cred, st *unix.Stat_t, bytes int) *vfs.Cred {
	switch {
	case !fs.identity.canSwitch:
		return nil // every call acts with the daemon's identity
	case markOnly(st.Mode) && keepsMark(c, st):
		return &vfs.Cred{UID: c.UID, GID: st.Gid, Groups: c.Groups}
	case bytes > 0 && c.UID != fs.identity.self.UID && fs.nearsReserve(bytes):
		return c
	}
	return nil
}

// asWriter runs f with the identity c, which writesAs returned.
func (i *identity) asWriter(c *vfs.Cred, f func() error) error {
	if c == nil {
		return f()
	}
	return i.as(c, f)
}

// clearSetID clears the set-id bits that the kernel would clear if c itself wrote to the file. The
// last argument holds the file's attributes before the write. The call is needed if the process
// still has CAP_FSETID (see DropCapabilities), because the kernel then keeps the bits.
func clearSetID(c *vfs.Cred, fd int, was *unix.Stat_t) {
	var st unix.Stat_t
	if was.Mode&(unix.S_ISUID|unix.S_ISGID) == 0 || sysFstat(fd, &st) != nil {
		return
	}
	mode := st.Mode &^ unix.S_ISUID
	if !markOnly(was.Mode) || !keepsMark(c, was) {
		mode &^= unix.S_ISGID
	}
	if mode != st.Mode {
		_ = unix.Fchmod(fd, mode&0o7777)
	}
}

// restoreSetID sets the set-id bits again that the kernel cleared when user 0 allocated or freed
// storage or copied a range. For a local program of user 0, which has CAP_FSETID, the kernel does
// not clear them. Nor does it for Linux's NFS server. The caller holds inode.modes.
func (i *identity) restoreSetID(fd int, was *unix.Stat_t) {
	var st unix.Stat_t
	if was.Mode&(unix.S_ISUID|unix.S_ISGID) == 0 || sysFstat(fd, &st) != nil {
		return
	}
	lost := was.Mode &^ st.Mode & (unix.S_ISUID | unix.S_ISGID)
	if lost == 0 {
		return
	}
	chmod := func() error { return unix.Fchmod(fd, (st.Mode|lost)&0o7777) }
	if i.canSwitch {
		_ = i.as(&vfs.Cred{GID: st.Gid}, chmod) // a member of the file's group may set the bit
		return
	}
	_ = chmod()
}

// Verifier implements vfs.FileSystem.
func (fs *FS) Verifier() (v [8]byte) {
	binary.BigEndian.PutUint64(v[:], fs.syncer.verifier.Load())
	return v
}

// Unsynced returns the number of files with written data that is not known to be on stable
// storage. Their clients have to commit it, or send it again after a restart. It does not block.
func (fs *FS) Unsynced() (files int) { return int(fs.syncer.unsynced.count.Load()) }

// ext2, ext3, ext4 and f2fs keep blocks in reserve for user 0. The kernel checks the user of the
// thread that writes, usually user 0, so clients could use up the reserve. Switching the thread to
// the caller costs tens of microseconds; so the daemon writes as the caller only when the free space
// above the reserve is low.

const (
	// nearReserve is the free space above the reserve, in bytes, below which calls write as the
	// caller. It is more than the data of all running writes together, because statfs does not
	// count that data yet. On a file system smaller than 512 MiB, half of its size is used
	// instead.
	nearReserve = 256 << 20
	// farReserve is the largest number of bytes written between two calls of lookAtReserve. The
	// sweeper also calls lookAtReserve every second, because other programs write as well.
	farReserve = 1 << 30
	// roundUp is the space, in bytes, that a write may take beyond its data: two partly filled
	// blocks.
	roundUp = 2 * 4096
)

// nearsReserve reports whether a write of this number of bytes could use reserved blocks.
func (fs *FS) nearsReserve(bytes int) bool {
	if !fs.kind.reserves {
		return false
	}
	return fs.reserveLeft.Add(-int64(bytes)-roundUp) < 0 && fs.lookAtReserve()
}

// lookAtReserve asks the file system for its free space and reports whether it is below
// nearReserve.
func (fs *FS) lookAtReserve() bool {
	var s unix.Statfs_t
	if sysFstatfs(fs.mount, &s) != nil {
		fs.reserveLeft.Store(0)
		return true
	}
	unit := int64(max(s.Frsize, 1))
	near := min(nearReserve, int64(s.Blocks)*unit/2)
	left := int64(s.Bavail)*unit - near
	fs.reserveLeft.Store(min(left, farReserve))
	return left <= 0
}
