package memfs

import (
	"math"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// isFile returns nil if n is a regular file. Otherwise it returns the error of a read or write of
// n.
func (n *node) isFile() error {
	switch n.attr.Type {
	case vfs.Regular:
		return nil
	case vfs.Directory:
		return syscall.EISDIR
	}
	return syscall.EINVAL
}

// Read implements vfs.FileSystem.
func (f *FS) Read(op *vfs.Op, h vfs.Handle, offset uint64, buf []byte, a *vfs.Attr) (n int, eof bool, err error) {
	if err := f.enter(op, Read); err != nil {
		return 0, false, err
	}
	defer f.leave()
	nd, err := f.rlock(h)
	if err != nil {
		return 0, false, err
	}
	*a = nd.attr
	if err = nd.isFile(); err == nil && !mayData(op.Cred, a, mayRead) {
		err = syscall.EACCES
	}
	if err != nil {
		nd.mu.RUnlock()
		return 0, false, err
	}
	n, eof = f.read(nd, offset, buf, a)
	return n, eof, nil
}

// read reads from nd and unlocks it. The caller holds nd.mu for reading, and passes nd's
// attributes in a.
func (f *FS) read(nd *node, offset uint64, buf []byte, a *vfs.Attr) (n int, eof bool) {
	if offset < a.Size {
		n = int(min(uint64(len(buf)), a.Size-offset))
		nd.data.read(offset, buf[:n])
	}
	nd.mu.RUnlock()
	if n > 0 && !a.Mtime.Before(a.Atime) {
		f.accessed(nd, a)
	}
	return n, offset+uint64(n) >= a.Size
}

// accessed sets the atime to the present time. read calls it only for the first read after a
// change, so that not every read has to lock n for writing.
func (f *FS) accessed(n *node, a *vfs.Attr) {
	now := f.now()
	n.mu.Lock()
	if n.attr.Atime.Before(now) {
		n.attr.Atime = now
	}
	a.Atime = n.attr.Atime
	n.mu.Unlock()
}

// Write implements vfs.FileSystem.
func (f *FS) Write(op *vfs.Op, h vfs.Handle, offset uint64, data [][]byte, stable vfs.Stability) (n int, done vfs.Stability, ch vfs.Change, err error) {
	ch, err = f.alter(op, Write, h, func(nd *node) (err error) {
		if err := nd.isFile(); err != nil {
			return err
		}
		if !mayData(op.Cred, &nd.attr, mayWrite) {
			return syscall.EACCES
		}
		n, done, err = f.write(nd, offset, data, stable)
		return err
	})
	return n, done, ch, err
}

// write stores data in nd and makes it as stable as requested. The caller holds nd.mu.
func (f *FS) write(nd *node, offset uint64, data [][]byte, stable vfs.Stability) (n int, done vfs.Stability, err error) {
	done = vfs.FileSync
	if f.opt.Unsynced {
		done = stable
	}
	n, err = f.store(nd, offset, data)
	if n == 0 {
		return 0, done, err
	}
	dropSetID(&nd.attr)
	nd.touch(f.now(), true)
	if done > vfs.Unstable {
		if err := f.sync(nd, offset, offset+uint64(n)); err != nil {
			return 0, 0, err
		}
	}
	return n, done, nil
}

// store copies data to nd, from offset on, until the file system's space runs out or the file has
// maxFileSize bytes. It returns an error only if it stored nothing.
func (f *FS) store(nd *node, offset uint64, data [][]byte) (n int, err error) {
	for _, p := range data {
		if len(p) == 0 {
			continue
		}
		at := offset + uint64(n)
		if offset > maxFileSize || at >= maxFileSize {
			err = syscall.EFBIG
			break
		}
		whole := len(p)
		if uint64(whole) > maxFileSize-at {
			p = p[:maxFileSize-at]
		}
		got, grown := nd.data.write(f, at, p)
		nd.attr.Used += uint64(grown)
		n += got
		if got < len(p) {
			err = syscall.ENOSPC
			break
		}
		if got < whole {
			err = syscall.EFBIG
			break
		}
	}
	if n == 0 {
		return 0, err
	}
	nd.attr.Size = max(nd.attr.Size, offset+uint64(n))
	return n, nil
}

// Commit implements vfs.FileSystem.
func (f *FS) Commit(op *vfs.Op, h vfs.Handle, offset uint64, count uint32) (vfs.Change, error) {
	return f.alter(op, Commit, h, func(n *node) error {
		if err := n.isFile(); err != nil {
			return err
		}
		return f.syncRange(n, offset, count)
	})
}

// syncRange syncs count bytes from offset; count 0 means all bytes from offset on.
func (f *FS) syncRange(n *node, offset uint64, count uint32) error {
	end := offset + uint64(count)
	if count == 0 || end < offset {
		end = math.MaxUint64
	}
	return f.sync(n, offset, end)
}

// sync makes the range of n between the offsets off and end stable. The caller holds n.mu.
func (f *FS) sync(n *node, off, end uint64) error {
	if err := f.syncFault(); err != nil {
		// Change the verifier before returning the error, because clients that do not get this
		// error have to send their data again, too.
		f.verifier.Add(math.MaxUint32)
		if f.opt.Unsynced {
			f.revert(n)
		}
		return err
	}
	if f.opt.Unsynced {
		n.data.sync(off, end, n.attr.Size)
	}
	return nil
}
