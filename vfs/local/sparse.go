package local

import (
	"math"
	"sync"
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
	if err := fs.syncer.makeRoomForData(op, n); err != nil {
		return err
	}
	data, err := fs.file(op, n, true)
	if err != nil {
		return err
	}
	defer data.put()
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
	c := n.before(&is, &ch)
	err = fs.identity.asWriter(fs.writesAs(op.Cred, &is.Stat_t, int(min(bytes, math.MaxInt32))), func() error { return do(data.fd) })
	if err == nil {
		n.wrote()
	}
	if op.Cred.UID == 0 {
		fs.identity.restoreSetID(data.fd, &is.Stat_t)
	} else {
		clearSetID(op.Cred, data.fd, &is.Stat_t)
	}
	_ = c.after(true, &is) // true: even a failed call may have changed a part
	return err
}

// fallocate changes a file by fallocate(2). The change is as durable as a change of attributes.
func (f *file) fallocate(op *vfs.Op, mode uint32, offset, length, bytes uint64) error {
	m := f.n.mark()
	err := f.alter(op, bytes, func(fd int) error {
		return notSupported(uninterrupted(func() error { return unix.Fallocate(fd, mode, int64(offset), int64(length)) }))
	})
	if err != nil {
		return err
	}
	return f.n.fs.syncer.durable(op, m)
}

// notSupported translates the kernel's errors for a missing operation to vfs.ErrNotSupported.
func notSupported(err error) error {
	if err == syscall.EOPNOTSUPP || err == syscall.ENOSYS {
		return vfs.ErrNotSupported
	}
	return err
}

// Allocate implements vfs.Sparse. ENOSPC: length is more than the free space and the file's own blocks.
// Without this check the kernel would first allocate all free space and then free it again.
func (fs *FS) Allocate(op *vfs.Op, of vfs.File, offset, length uint64) error {
	f, err := fs.own(of)
	switch {
	case err != nil:
		return err
	case length == 0:
		return syscall.EINVAL
	case offset > math.MaxInt64 || length > math.MaxInt64-offset:
		return syscall.EFBIG
	case op.Try:
		return vfs.ErrWouldBlock
	}
	var s unix.Statfs_t
	var st unix.Stat_t
	if sysFstatfs(f.n.fd, &s) == nil && sysFstat(f.n.fd, &st) == nil &&
		length > s.Bfree*uint64(s.Bsize)+uint64(st.Blocks)*512 {
		return syscall.ENOSPC
	}
	return f.fallocate(op, 0, offset, length, length)
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
	return f.fallocate(op, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, offset, min(length, end-offset), 0)
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
	data, err := fs.file(op, f.n, false)
	if err != nil {
		return 0, false, err
	}
	defer data.put()
	found, err := sysSeek(data.fd, int64(offset), whence)
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

const (
	// copyAtOnce is the limit of one CopyRange, in bytes. Other writers of the target wait meanwhile.
	copyAtOnce = 16 << 20
	// copyBuffer is the size, in bytes, of one read if the kernel cannot copy the range itself.
	copyBuffer = 256 << 10
)

var copyBuffers = sync.Pool{New: func() any { b := make([]byte, copyBuffer); return &b }}

var _ vfs.Copier = (*FS)(nil)

// copying checks the Files of a copy, which may belong to two FSs, and begins a call on the
// source. The caller ends it with src.giveUp.
func (fs *FS) copying(from, to vfs.File) (src, dst *file, err error) {
	src, ok := from.(*file)
	if !ok {
		return nil, nil, syscall.EXDEV
	}
	if dst, err = fs.own(to); err != nil {
		return nil, nil, err
	}
	return src, dst, src.acquire(vfs.OpenRead)
}

// CopyRange implements vfs.Copier.
func (fs *FS) CopyRange(op *vfs.Op, from vfs.File, fromOffset uint64, to vfs.File, toOffset, count uint64) (n uint64, err error) {
	src, dst, err := fs.copying(from, to)
	if err != nil {
		return 0, err
	}
	defer src.giveUp()
	if op.Try {
		return 0, vfs.ErrWouldBlock
	}
	count, err = src.rangeToCopy(op, fromOffset, count)
	if err != nil || count == 0 {
		return 0, err
	}
	if toOffset > math.MaxInt64 || count > math.MaxInt64-toOffset {
		return 0, syscall.EFBIG
	}
	if src.n.inode == dst.n.inode && fromOffset < toOffset+count && toOffset < fromOffset+count {
		return 0, syscall.EINVAL
	}
	count = min(count, copyAtOnce)
	data, err := src.n.fs.file(op, src.n, false)
	if err != nil {
		return 0, err
	}
	defer data.put()
	err = dst.alter(op, count, func(fd int) error {
		in, out := int64(fromOffset), int64(toOffset)
		var got int
		err := uninterrupted(func() (err error) {
			got, err = unix.CopyFileRange(data.fd, &in, fd, &out, int(count), 0)
			return err
		})
		switch err {
		case syscall.EXDEV, syscall.EOPNOTSUPP, syscall.ENOSYS, syscall.EINVAL:
			// The kernel cannot copy between these two files.
			got, err = copyByHand(data.fd, fd, fromOffset, toOffset, count)
		}
		n = uint64(max(got, 0))
		return err
	})
	return n, err
}

// rangeToCopy returns the number of bytes to copy: the part of the count bytes at offset that lies
// within the file. Count 0 means all bytes up to the end.
func (f *file) rangeToCopy(op *vfs.Op, offset, count uint64) (uint64, error) {
	var st look
	if err := f.n.fs.look(op, f.n, &st); err != nil {
		return 0, err
	}
	if offset >= uint64(st.Size) {
		return 0, nil
	}
	left := uint64(st.Size) - offset
	if count == 0 {
		count = left
	}
	return min(count, left), nil
}

// copyByHand copies by reading and writing. It returns an error only if it copied nothing.
func copyByHand(from, to int, fromOffset, toOffset, count uint64) (n int, err error) {
	buf := copyBuffers.Get().(*[]byte)
	defer copyBuffers.Put(buf)
	for uint64(n) < count && err == nil {
		var got, put int
		piece := (*buf)[:min(count-uint64(n), copyBuffer)]
		if got, err = sysPreadv2(from, piece, int64(fromOffset)+int64(n), 0); err != nil || got == 0 {
			break
		}
		iov := []unix.Iovec{{Base: &piece[0], Len: uint64(got)}}
		put, err = sysPwritev2(to, iov, int64(toOffset)+int64(n), 0)
		if err == nil {
			n += put
		}
	}
	if n > 0 {
		err = nil
	}
	return n, err
}

// CloneRange implements vfs.Copier.
func (fs *FS) CloneRange(op *vfs.Op, from vfs.File, fromOffset uint64, to vfs.File, toOffset, count uint64) error {
	src, dst, err := fs.copying(from, to)
	if err != nil {
		return err
	}
	defer src.giveUp()
	if op.Try {
		return vfs.ErrWouldBlock
	}
	if fromOffset > math.MaxInt64 || toOffset > math.MaxInt64 || count > math.MaxInt64 {
		return syscall.EINVAL
	}
	data, err := src.n.fs.file(op, src.n, false)
	if err != nil {
		return err
	}
	defer data.put()
	m := dst.n.mark()
	r := unix.FileCloneRange{Src_fd: int64(data.fd), Src_offset: fromOffset, Src_length: count, Dest_offset: toOffset}
	err = dst.alter(op, 0, func(fd int) error {
		return uninterrupted(func() error { return unix.IoctlFileCloneRange(fd, &r) })
	})
	switch err {
	case nil:
		return fs.syncer.durable(op, m)
	case syscall.ENOTTY:
		return vfs.ErrNotSupported
	}
	return notSupported(err)
}
