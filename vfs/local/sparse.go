package local

import (
	"math"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

var _ vfs.Sparse = (*FS)(nil)

// own returns f as a *file. EBADF: f is a File of another FileSystem.
func (fs *FS) own(f vfs.File) (*file, error) {
	if own, ok := f.(*file); ok && own.n.fs == fs {
		return own, nil
	}
	return nil, syscall.EBADF
}

// alter changes the data of f's file. The function do makes the system calls, on the writable
// descriptor. The argument bytes is the storage, in bytes, that they may take.
func (f *file) alter(op *vfs.Op, bytes uint64, do func(fd int) error) error {
	if err := f.acquire(vfs.OpenWrite); err != nil {
		return err
	}
	defer f.giveUp()
	if op.Try {
		return vfs.ErrWouldBlock
	}
	fs, n := f.n.fs, f.n
	if err := fs.makeRoomForData(op, n); err != nil {
		return err
	}
	n.inode.mu.Lock()
	defer n.inode.mu.Unlock()
	if op.Cred.UID == 0 {
		n.inode.modes.Lock()
		defer n.inode.modes.Unlock()
	}
	var is look
	if err := fs.look(op, n, &is); err != nil {
		return err
	}
	var ch vfs.Change
	c := fs.before(n, &is, &ch)
	err := fs.asWriter(fs.writesAs(op.Cred, &is.Stat_t, int(min(bytes, math.MaxInt32))), func() error { return do(f.data.fd) })
	if err == nil {
		n.wrote()
	}
	if op.Cred.UID == 0 {
		fs.restoreSetID(f.data.fd, &is.Stat_t)
	} else {
		fs.clearSetID(op.Cred, f.data.fd, &is.Stat_t)
	}
	_ = c.after(true, &is) // true: even a failed call may have changed a part
	return err
}

// fallocate changes a file by fallocate(2). The change is as durable as a change of attributes.
func (fs *FS) fallocate(op *vfs.Op, to vfs.File, mode uint32, offset, length, bytes uint64) error {
	f, err := fs.own(to)
	if err != nil {
		return err
	}
	m := f.n.mark()
	err = f.alter(op, bytes, func(fd int) error {
		return notSupported(uninterrupted(func() error { return unix.Fallocate(fd, mode, int64(offset), int64(length)) }))
	})
	if err != nil {
		return err
	}
	return fs.durable(op, m)
}

// notSupported translates the kernel's errors for a missing operation to vfs.ErrNotSupported.
func notSupported(err error) error {
	if err == syscall.EOPNOTSUPP || err == syscall.ENOSYS {
		return vfs.ErrNotSupported
	}
	return err
}

// Allocate implements vfs.Sparse.
func (fs *FS) Allocate(op *vfs.Op, f vfs.File, offset, length uint64) error {
	switch {
	case length == 0:
		return syscall.EINVAL
	case offset > math.MaxInt64 || length > math.MaxInt64-offset:
		return syscall.EFBIG
	case op.Try:
		return vfs.ErrWouldBlock
	}
	if err := fs.roomFor(f, length); err != nil {
		return err
	}
	return fs.fallocate(op, f, 0, offset, length, length)
}

// roomFor returns ENOSPC if length is more than the free space and the file's own blocks together.
// Without this check the kernel would first allocate all free space and then free it again.
func (fs *FS) roomFor(of vfs.File, length uint64) error {
	f, err := fs.own(of)
	if err != nil {
		return err
	}
	var s unix.Statfs_t
	var st unix.Stat_t
	if unix.Fstatfs(f.n.fd, &s) != nil || unix.Fstat(f.n.fd, &st) != nil {
		return nil // let the next system call report the error
	}
	if length > s.Bfree*uint64(s.Bsize)+uint64(st.Blocks)*512 {
		return syscall.ENOSPC
	}
	return nil
}

// blockMost is a multiple of the block sizes of the usual file systems, in bytes.
const blockMost = 64 << 10

// Deallocate implements vfs.Sparse. It shortens the range to the end of the file's last block,
// because the kernel refuses offsets beyond the largest file size.
func (fs *FS) Deallocate(op *vfs.Op, of vfs.File, offset, length uint64) error {
	f, err := fs.own(of)
	switch {
	case err != nil:
		return err
	case f.access&vfs.OpenWrite == 0 || f.closed.Load():
		return syscall.EBADF
	case length == 0:
		return syscall.EINVAL
	case op.Try:
		return vfs.ErrWouldBlock
	}
	var st look
	if err = fs.look(op, f.n, &st); err != nil {
		return err
	}
	end := (uint64(st.Size) + blockMost - 1) / blockMost * blockMost
	if end = min(end, fs.kind.maxFile); offset >= end {
		return nil
	}
	return fs.fallocate(op, f, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, offset, min(length, end-offset), 0)
}

// Seek implements vfs.Sparse. It moves the descriptor's position, which all callers share; no
// call reads or writes at that position.
func (fs *FS) Seek(op *vfs.Op, of vfs.File, offset uint64, what vfs.SeekWhat) (at uint64, eof bool, err error) {
	f, err := fs.own(of)
	if err != nil {
		return 0, false, err
	}
	if err = f.acquire(vfs.OpenRead); err != nil {
		return 0, false, err
	}
	defer f.giveUp()
	whence := unix.SEEK_DATA
	switch {
	case what == vfs.SeekHole:
		whence = unix.SEEK_HOLE
	case what != vfs.SeekData:
		return 0, false, syscall.EINVAL
	}
	if op.Try {
		return 0, false, vfs.ErrWouldBlock // extents may have to be read from the disk
	}
	if offset > math.MaxInt64 {
		return 0, false, syscall.ENXIO
	}
	found, err := unix.Seek(f.data.fd, int64(offset), whence)
	var st look
	if lookErr := fs.look(op, f.n, &st); lookErr != nil {
		return 0, false, lookErr
	}
	size := uint64(st.Size)
	switch {
	case err == syscall.ENXIO && what == vfs.SeekData && offset < size:
		return size, true, nil // offset is in the hole at the end of the file
	case err != nil:
		return 0, false, notSupported(err)
	}
	return uint64(found), uint64(found) >= size, nil
}
