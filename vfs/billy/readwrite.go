package billy

import (
	"errors"
	"io"
	"syscall"

	gobilly "github.com/go-git/go-billy/v5"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// isFile says why n's data cannot be had, where it cannot.
func (n *node) isFile() error {
	switch n.kind {
	case vfs.Regular:
		return nil
	case vfs.Directory:
		return syscall.EISDIR
	}
	return syscall.EINVAL
}

// hold takes n.io, exclusively for writing, and returns n's open file; release
// gives both back. FS.calls is held.
func (f *FS) hold(n *node, write bool) (*openFile, error) {
	if write {
		n.io.Lock()
	} else {
		n.io.RLock()
	}
	path, err := f.path(n)
	if err == nil {
		var o *openFile
		if o, err = f.open.get(f, n, path, write); err == nil {
			return o, nil
		}
	}
	n.unlock(write)
	return nil, err
}

func (n *node) unlock(write bool) {
	if write {
		n.io.Unlock()
	} else {
		n.io.RUnlock()
	}
}

func (f *FS) release(o *openFile, write bool) {
	o.node.unlock(write)
	f.open.put(o)
}

// apart lets go of FS.calls for the time of an input or output where the file
// system allows it: what it returns ends what is left.
func (f *FS) apart() (unlock func()) {
	if f.opt.Concurrent {
		f.calls.RUnlock()
		return func() {}
	}
	return f.calls.RUnlock
}

// Read implements vfs.FileSystem.
func (f *FS) Read(op *vfs.Op, h vfs.Handle, offset uint64, buf []byte, a *vfs.Attr) (n int, eof bool, err error) {
	if op.Try {
		return 0, false, vfs.ErrWouldBlock
	}
	f.calls.RLock()
	unlock := f.calls.RUnlock
	defer func() { unlock() }()
	nd, err := f.look(h, a)
	if err != nil {
		return 0, false, err
	}
	if err := nd.isFile(); err != nil {
		return 0, false, err
	}
	if offset >= a.Size || len(buf) == 0 {
		return 0, offset >= a.Size, nil
	}
	o, err := f.hold(nd, false)
	if err != nil {
		return 0, false, err
	}
	defer f.release(o, false)
	unlock = f.apart()
	buf = buf[:min(uint64(len(buf)), uint64(maxOffset)-offset)]
	for n < len(buf) {
		var m int
		err := f.fs.call(func() (err error) { m, err = o.file.ReadAt(buf[n:], int64(offset)+int64(n)); return })
		n += m
		if errors.Is(err, io.EOF) {
			return n, true, nil
		}
		if err != nil {
			return 0, false, errno(err)
		}
		if m == 0 {
			return 0, false, syscall.EIO
		}
	}
	return n, offset+uint64(n) >= a.Size, nil
}

const maxOffset = 1<<63 - 1

// Write implements vfs.FileSystem.
func (f *FS) Write(op *vfs.Op, h vfs.Handle, offset uint64, data [][]byte, stable vfs.Stability) (n int, done vfs.Stability, ch vfs.Change, err error) {
	if op.Try {
		return 0, 0, ch, vfs.ErrWouldBlock
	}
	f.calls.RLock()
	unlock := f.calls.RUnlock
	defer func() { unlock() }()
	nd, err := f.changing(h, &ch)
	if err != nil {
		return 0, 0, ch, err
	}
	size := 0
	for _, p := range data {
		size += len(p)
	}
	switch {
	case nd.isFile() != nil:
		return 0, 0, ch, nd.isFile()
	case f.readOnly:
		return 0, 0, ch, syscall.EROFS
	case size == 0:
		return 0, stable, ch, nil
	case offset >= f.opt.MaxFileSize:
		return 0, 0, ch, syscall.EFBIG
	}
	o, err := f.hold(nd, true)
	if err != nil {
		return 0, 0, ch, err
	}
	defer f.release(o, true)
	unlock = f.apart()
	// Again, now that nobody else writes.
	if ch.Before, err = f.stat(nd, looked, true); err != nil {
		return 0, 0, vfs.Change{}, err
	}
	err = f.fs.call(func() (err error) { n, err = store(o.file, offset, data, f.opt.MaxFileSize); return })
	if n == 0 {
		return 0, 0, ch, errno(err)
	}
	o.dirty = true
	if path, err := f.path(nd); err == nil {
		f.dropSetID(nd, path, &ch.Before)
	}
	if stable > vfs.Unstable {
		if done, err = f.stabilise(o); err != nil {
			return 0, 0, ch, err
		}
	}
	f.changed(nd, &ch, rewritten, true)
	return n, done, ch, nil
}

// store writes pieces at offset, not beyond limit. An error counts only where
// nothing was stored.
func store(file gobilly.File, offset uint64, data [][]byte, limit uint64) (n int, err error) {
	at, direct := file.(io.WriterAt)
	if !direct {
		if _, err := file.Seek(int64(offset), io.SeekStart); err != nil {
			return 0, err
		}
	}
	for _, p := range data {
		if room := limit - offset - uint64(n); uint64(len(p)) > room {
			p = p[:room]
		}
		if len(p) == 0 {
			continue
		}
		var m int
		if direct {
			m, err = at.WriteAt(p, int64(offset)+int64(n))
		} else {
			m, err = file.Write(p)
		}
		if m < 0 || m > len(p) {
			return n, syscall.EIO
		}
		n += m
		if err != nil || m < len(p) {
			if err == nil {
				err = io.ErrShortWrite
			}
			break
		}
	}
	return n, err
}

// syncer returns what puts a file on stable storage, nil where nothing does.
func (f *FS) syncer(file gobilly.File) func() error {
	if s, ok := file.(interface{ Sync() error }); ok {
		return s.Sync
	}
	if f.opt.Sync != nil {
		return func() error { return f.opt.Sync(file) }
	}
	return nil
}

// stabilise makes a file's data as stable as can be and says how stable that
// is. The node's io is held exclusively.
func (f *FS) stabilise(o *openFile) (vfs.Stability, error) {
	stable := vfs.Unstable
	o.dirty = false
	var err error
	if sync := f.syncer(o.file); sync != nil {
		stable, err = vfs.FileSync, f.fs.call(sync)
	} else {
		// Closing is what there is.
		err = f.open.end(o)
	}
	if err != nil {
		f.failedSync()
		return vfs.Unstable, errno(err)
	}
	return stable, nil
}

// Commit implements vfs.FileSystem.
func (f *FS) Commit(op *vfs.Op, h vfs.Handle, offset uint64, count uint32) (ch vfs.Change, err error) {
	if op.Try {
		return ch, vfs.ErrWouldBlock
	}
	f.calls.RLock()
	unlock := f.calls.RUnlock
	defer func() { unlock() }()
	n, err := f.changing(h, &ch)
	if err != nil {
		return ch, err
	}
	if err := n.isFile(); err != nil {
		return ch, err
	}
	if !f.readOnly {
		o, err := f.hold(n, true)
		if err != nil {
			return ch, err
		}
		defer f.release(o, true)
		unlock = f.apart()
		if _, err := f.stabilise(o); err != nil {
			return ch, err
		}
	}
	f.changed(n, &ch, looked, !f.readOnly)
	return ch, nil
}
