package memfs

import (
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

var _ vfs.Sparse = (*FS)(nil)

// enterOpen starts a call of m, a method of an optional interface, on a file that must be open for the
// given access. It returns the file's node, locked, and the function that ends the call.
func (f *FS) enterOpen(op *vfs.Op, m Method, used vfs.File, access vfs.OpenAccess) (*node, func(), error) {
	file, ok := used.(*file)
	if !ok || file.fs != f {
		return nil, nil, syscall.EBADF
	}
	if err := f.enter(op, m); err != nil {
		return nil, nil, err
	}
	if err := file.lock(access); err != nil {
		f.leave()
		return nil, nil, err
	}
	return file.node, func() {
		file.node.mu.Unlock()
		f.leave()
	}, nil
}

// Allocate implements vfs.Sparse.
func (f *FS) Allocate(op *vfs.Op, file vfs.File, offset, length uint64) error {
	n, end, err := f.enterOpen(op, Allocate, file, vfs.OpenWrite)
	if err != nil {
		return err
	}
	defer end()
	switch {
	case length == 0:
		return syscall.EINVAL
	case offset > maxFileSize || length > maxFileSize-offset:
		return syscall.EFBIG
	case !f.hasRoom(length, n):
		return syscall.ENOSPC
	}
	grown, ok := n.data.allocate(f, offset, length)
	n.attr.Used += uint64(grown)
	if !ok {
		return syscall.ENOSPC
	}
	if last := offset + length; last > n.attr.Size {
		n.attr.Size, n.data.safeSize = last, last
	}
	dropSetID(&n.attr)
	n.touch(f.now(), true)
	return nil
}

// hasRoom reports whether the file system could store this number of bytes if the storage of n
// were free. The caller holds n.mu.
func (f *FS) hasRoom(bytes uint64, n *node) bool {
	left := int64(f.opt.Bytes) - f.bytes.Load() + int64(n.attr.Used)
	return left >= 0 && bytes <= uint64(left)
}

// allocate allocates storage for a range until space runs out. It returns the number of bytes of
// storage allocated. ok is false if space ran out.
func (d *fileData) allocate(f *FS, offset, length uint64) (grown int, ok bool) {
	for length > 0 {
		at := int(offset % chunkSize)
		step := min(length, uint64(chunkSize-at))
		more, ok := d.extend(f, offset/chunkSize, at+int(step))
		grown += more
		if !ok {
			return grown, false
		}
		offset, length = offset+step, length-step
	}
	return grown, true
}

// Deallocate implements vfs.Sparse.
func (f *FS) Deallocate(op *vfs.Op, file vfs.File, offset, length uint64) error {
	n, end, err := f.enterOpen(op, Deallocate, file, vfs.OpenWrite)
	if err != nil {
		return err
	}
	defer end()
	if length == 0 {
		return syscall.EINVAL
	}
	if offset >= n.attr.Size {
		return nil
	}
	freed := n.data.punch(f, offset, offset+min(length, n.attr.Size-offset))
	n.attr.Used -= uint64(freed)
	f.bytes.Add(-int64(freed))
	dropSetID(&n.attr)
	n.touch(f.now(), true)
	return nil
}

// punch zeroes the bytes from offset to end and returns the number of bytes of storage that it
// freed.
func (d *fileData) punch(f *FS, offset, end uint64) (freed int) {
	for i, c := range d.chunks {
		first := i * chunkSize
		if first >= end || first+uint64(len(c)) <= offset {
			continue
		}
		from, to := max(offset, first)-first, min(end-first, uint64(len(c)))
		if f.opt.Unsynced {
			d.remember(first+from, int(to-from), c)
		} else if from == 0 && to == uint64(len(c)) {
			freed += len(c)
			delete(d.chunks, i)
			continue
		}
		clear(c[from:to])
	}
	return freed
}

// Seek implements vfs.Sparse.
func (f *FS) Seek(op *vfs.Op, file vfs.File, offset uint64, what vfs.SeekWhat) (at uint64, eof bool, err error) {
	n, end, err := f.enterOpen(op, Seek, file, vfs.OpenRead)
	if err != nil {
		return 0, false, err
	}
	defer end()
	size := n.attr.Size
	switch {
	case offset >= size:
		return 0, false, syscall.ENXIO
	case what == vfs.SeekData:
		at = min(n.data.nextData(offset), size)
	case what == vfs.SeekHole:
		at = min(n.data.nextHole(offset), size)
	default:
		return 0, false, syscall.EINVAL
	}
	return at, at == size, nil
}

// nextData returns the first offset at or after off that has storage, or maxFileSize if there is
// none.
func (d *fileData) nextData(off uint64) uint64 {
	best := uint64(maxFileSize)
	for i, c := range d.chunks {
		if first := i * chunkSize; off < first+uint64(len(c)) {
			best = min(best, max(off, first))
		}
	}
	return best
}

// nextHole returns the first offset at or after off that has no storage.
func (d *fileData) nextHole(off uint64) uint64 {
	for {
		c := d.chunks[off/chunkSize]
		if off%chunkSize >= uint64(len(c)) {
			return off
		}
		off += uint64(len(c)) - off%chunkSize
	}
}

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
