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
