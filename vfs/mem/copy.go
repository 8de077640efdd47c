package memfs

import (
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// cloneGrain is the alignment, in bytes, that CloneRange requires. copyMost is the maximum number
// of bytes that one CopyRange copies; it is small, so that tests need several calls.
const (
	cloneGrain = 4096
	copyMost   = 4 << 20
)

var _ vfs.Copier = (*FS)(nil)

// A copying is a copy of count bytes between two files, whose nodes are locked.
type copying struct {
	fs                          *FS
	from, to                    *node
	fromOffset, toOffset, count uint64
}

// copying checks the arguments of a copy and locks both files. The caller calls end to unlock
// them.
func (f *FS) copying(op *vfs.Op, m Method, from vfs.File, fromOffset uint64, to vfs.File, toOffset, count uint64) (c copying, end func(), err error) {
	src, ok := from.(*file)
	dst, own := to.(*file)
	if !ok || !own || dst.fs != f || src.fs != f {
		return c, nil, syscall.EXDEV
	}
	if err = f.enter(op, m); err != nil {
		return c, nil, err
	}
	c = copying{f, src.node, dst.node, fromOffset, toOffset, count}
	unlock := lockBoth(c.from, c.to)
	end = func() {
		unlock()
		f.leave()
	}
	if err = src.is(vfs.OpenRead); err == nil {
		err = dst.is(vfs.OpenWrite)
	}
	if err == nil {
		err = c.limit()
	}
	if err != nil {
		end()
		return c, nil, err
	}
	return c, end, nil
}

// lockBoth locks two files, which may be the same, in the order of their file numbers.
func lockBoth(a, b *node) (unlock func()) {
	if a == b {
		a.mu.Lock()
		return a.mu.Unlock
	}
	if a.attr.FileID > b.attr.FileID {
		a, b = b, a
	}
	a.mu.Lock()
	b.mu.Lock()
	return func() {
		b.mu.Unlock()
		a.mu.Unlock()
	}
}

// limit returns an error if the ranges overlap, or one of them ends beyond maxFileSize. If count
// is 0, it first sets count to the rest of the source file.
func (c *copying) limit() error {
	if size := c.from.attr.Size; c.count == 0 && c.fromOffset < size {
		c.count = size - c.fromOffset
	}
	switch {
	case c.fromOffset > maxFileSize || c.count > maxFileSize-c.fromOffset:
		return syscall.EINVAL
	case c.toOffset > maxFileSize || c.count > maxFileSize-c.toOffset:
		return syscall.EFBIG
	case c.from == c.to && c.fromOffset < c.toOffset+c.count && c.toOffset < c.fromOffset+c.count:
		return syscall.EINVAL
	}
	return nil
}

// CopyRange implements vfs.Copier.
func (f *FS) CopyRange(op *vfs.Op, from vfs.File, fromOffset uint64, to vfs.File, toOffset, count uint64) (uint64, error) {
	c, end, err := f.copying(op, CopyRange, from, fromOffset, to, toOffset, count)
	if err != nil {
		return 0, err
	}
	defer end()
	if fromOffset >= c.from.attr.Size {
		return 0, nil
	}
	c.count = min(c.count, c.from.attr.Size-fromOffset, copyMost)
	return c.do()
}

// CloneRange implements vfs.Copier. It makes a copy, which needs storage of its own.
func (f *FS) CloneRange(op *vfs.Op, from vfs.File, fromOffset uint64, to vfs.File, toOffset, count uint64) error {
	c, end, err := f.copying(op, CloneRange, from, fromOffset, to, toOffset, count)
	if err != nil {
		return err
	}
	defer end()
	size := c.from.attr.Size
	whole := c.count%cloneGrain == 0 || fromOffset+c.count == size && c.toOffset+c.count >= c.to.attr.Size
	switch {
	case fromOffset+c.count > size, fromOffset%cloneGrain != 0, toOffset%cloneGrain != 0, !whole:
		return syscall.EINVAL
	case !f.hasRoom(c.count+2*chunkSize, &node{}):
		return syscall.ENOSPC
	case c.count == 0:
		return nil
	}
	_, err = c.do()
	return err
}

// do copies the range and returns the number of bytes copied. It returns an error only if it
// copied nothing.
func (c *copying) do() (n uint64, err error) {
	buf := make([]byte, min(c.count, chunkSize))
	for n < c.count && err == nil {
		piece := buf[:min(c.count-n, uint64(len(buf)))]
		c.from.data.read(c.fromOffset+n, piece)
		var got int
		got, err = c.fs.store(c.to, c.toOffset+n, [][]byte{piece})
		n += uint64(got)
		if got < len(piece) {
			break
		}
	}
	if n == 0 {
		return 0, err
	}
	dropSetID(&c.to.attr)
	c.to.touch(c.fs.now(), true)
	return n, nil
}
