package billy

import (
	"errors"
	"io"
	"math"
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

// Read implements vfs.FileSystem.
func (f *FS) Read(op *vfs.Op, h vfs.Handle, offset uint64, buf []byte, a *vfs.Attr) (n int, eof bool, err error) {
	var o *openFile
	err = f.look(op, func() error {
		nd, err := f.get(h, a)
		if err == nil {
			err = nd.isFile()
		}
		if err != nil || offset >= a.Size || len(buf) == 0 {
			return err
		}
		if o, err = f.file(nd, false); err == nil {
			f.reading.Add(1)
			o.reads.Add(1)
		}
		return err
	})
	if err != nil || o == nil {
		return 0, err == nil && offset >= a.Size, err
	}
	defer f.reading.Done()
	defer o.reads.Add(-1)
	err = f.call(func() (err error) { n, eof, err = load(o, offset, buf); return })
	if err != nil {
		return 0, false, err
	}
	return n, eof || offset+uint64(n) >= a.Size, nil
}

// load fills buf from offset as far as the file reaches.
func load(o *openFile, offset uint64, buf []byte) (n int, eof bool, err error) {
	n, err = o.ReadAt(buf[:min(uint64(len(buf)), math.MaxInt64-offset)], int64(offset))
	if errors.Is(err, io.EOF) {
		return n, true, nil
	}
	if err == nil && n == 0 {
		err = io.ErrNoProgress
	}
	return n, false, err
}

// Write implements vfs.FileSystem.
func (f *FS) Write(op *vfs.Op, h vfs.Handle, offset uint64, data [][]byte, stable vfs.Stability) (n int, done vfs.Stability, ch vfs.Change, err error) {
	size := 0
	for _, p := range data {
		size += len(p)
	}
	err = f.alterAt(op, h, &ch, func(nd *node) error {
		switch err := nd.isFile(); {
		case err != nil:
			return err
		case f.readOnly:
			return syscall.EROFS
		case size == 0:
			done = stable
			return nil
		case offset >= f.opt.MaxFileSize:
			return syscall.EFBIG
		}
		o, err := f.file(nd, true)
		if err != nil {
			return err
		}
		err = f.call(func() (err error) { n, err = store(o.File, offset, data, f.opt.MaxFileSize); return })
		if n == 0 {
			return err
		}
		o.dirty = true
		nd.did = rewritten
		f.dropSetID(nd, &ch.Before)
		if stable > vfs.Unstable {
			if done, err = f.stabilise(nd); err != nil {
				n = 0
				return err
			}
		}
		return nil
	})
	return n, done, ch, err
}

// store writes pieces at offset, not beyond limit. An error counts only where
// nothing was stored.
func store(file gobilly.File, offset uint64, data [][]byte, limit uint64) (n int, err error) {
	var w io.Writer = file
	if at, ok := file.(io.WriterAt); ok {
		w = io.NewOffsetWriter(at, int64(offset))
	} else if _, err := file.Seek(int64(offset), io.SeekStart); err != nil {
		return 0, err
	}
	for _, p := range data {
		p = p[:min(uint64(len(p)), limit-offset-uint64(n))]
		m, err := w.Write(p)
		if m < 0 || m > len(p) {
			return n, syscall.EIO
		}
		n += m
		if err != nil {
			return n, err
		}
		if m < len(p) {
			return n, io.ErrShortWrite
		}
	}
	return n, nil
}

// Commit implements vfs.FileSystem.
func (f *FS) Commit(op *vfs.Op, h vfs.Handle, offset uint64, count uint32) (ch vfs.Change, err error) {
	err = f.alterAt(op, h, &ch, func(n *node) error {
		if err := n.isFile(); err != nil || f.readOnly {
			return err
		}
		if _, err := f.file(n, true); err != nil {
			return err
		}
		_, err := f.stabilise(n)
		return err
	})
	return ch, err
}
