package local

import (
	"math"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

const (
	// copyAtOnce is the largest number of bytes that one system call copies. Other writers of the
	// target file wait during that call.
	copyAtOnce = 16 << 20
	// copyMost is the largest number of bytes that one CopyRange copies. After the time copyFor,
	// CopyRange begins no further system call. CopyRange has these limits because its caller waits
	// for it.
	copyMost = 256 << 20
	copyFor  = 250 * time.Millisecond
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
	if err != nil {
		return 0, err
	}
	if toOffset > math.MaxInt64 || count > math.MaxInt64-toOffset {
		return 0, syscall.EFBIG
	}
	if src.n == dst.n && fromOffset < toOffset+count && toOffset < fromOffset+count {
		return 0, syscall.EINVAL
	}
	count = min(count, copyMost)
	for begun := fs.now(); n < count && err == nil; {
		var got int
		got, err = dst.copyPiece(op, src, fromOffset+n, toOffset+n, min(count-n, copyAtOnce))
		if n += uint64(got); got == 0 || fs.now().Sub(begun) > copyFor {
			break
		}
	}
	if n > 0 {
		err = nil
	}
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
		return left, nil
	}
	return min(count, left), nil
}

// copyPiece copies up to count bytes from src to f and returns the number of bytes copied.
func (f *file) copyPiece(op *vfs.Op, src *file, fromOffset, toOffset, count uint64) (n int, err error) {
	err = f.alter(op, count, func(fd int) (err error) {
		in, out := int64(fromOffset), int64(toOffset)
		for {
			n, err = unix.CopyFileRange(src.data.fd, &in, fd, &out, int(count), 0)
			switch err {
			case syscall.EINTR:
				continue
			case syscall.EXDEV, syscall.EOPNOTSUPP, syscall.ENOSYS, syscall.EINVAL:
				// The kernel cannot copy between these two files.
				n, err = copyByHand(src.data.fd, fd, fromOffset, toOffset, count)
			}
			return err
		}
	})
	return n, err
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
	m := dst.n.mark()
	r := unix.FileCloneRange{Src_fd: int64(src.data.fd), Src_offset: fromOffset, Src_length: count, Dest_offset: toOffset}
	err = dst.alter(op, 0, func(fd int) error {
		return uninterrupted(func() error { return unix.IoctlFileCloneRange(fd, &r) })
	})
	switch err {
	case nil:
		return fs.durable(op, m)
	case syscall.ENOTTY:
		return vfs.ErrNotSupported
	}
	return notSupported(err)
}
