package billy

import (
	"errors"
	"io"
	"math"
	"syscall"

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
	opened := false
	err = f.look(op, func() error {
		nd, err := f.get(h, a)
		if err == nil {
			err = nd.isFile()
		}
		if err != nil {
			return err
		}
		if offset >= a.Size || len(buf) == 0 {
			n, eof = 0, offset >= a.Size
			return nil
		}
		o, err := f.file(nd, false)
		if err != nil {
			return err
		}
		if f.alone && !opened {
			// What had to be learned and opened is known and open now, and
			// the data is read beside other calls.
			opened = true
			return errAlone
		}
		n, eof, err = f.load(o, offset, buf)
		eof = eof || offset+uint64(n) >= a.Size
		return err
	})
	return n, eof && err == nil, err
}

// load fills buf from offset as far as the file reaches.
func (f *FS) load(o *openFile, offset uint64, buf []byte) (n int, eof bool, err error) {
	buf = buf[:min(uint64(len(buf)), math.MaxInt64-offset)]
	err = f.fs.call(func() error {
		for n < len(buf) {
			m, err := o.ReadAt(buf[n:], int64(offset)+int64(n))
			n += m
			if errors.Is(err, io.EOF) {
				eof = true
				return nil
			}
			if err == nil && m == 0 {
				err = syscall.EIO
			}
			if err != nil {
				n = 0
				return err
			}
		}
		return nil
	})
	return n, eof, err
}

// Write implements vfs.FileSystem.
func (f *FS) Write(op *vfs.Op, h vfs.Handle, offset uint64, data [][]byte, stable vfs.Stability) (n int, done vfs.Stability, ch vfs.Change, err error) {
	size := 0
	for _, p := range data {
		size += len(p)
	}
	err = f.alter(op, func() error {
		nd, err := f.changing(h, &ch)
		if err == nil {
			err = nd.isFile()
		}
		switch {
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
		err = f.fs.call(func() (err error) { n, err = store(o, offset, data, f.opt.MaxFileSize); return })
		if n == 0 {
			return err
		}
		o.dirty = true
		f.dropSetID(nd, &ch.Before)
		if stable > vfs.Unstable {
			if done, err = f.stabilise(nd, o); err != nil {
				n = 0
				return err
			}
		}
		f.changed(nd, &ch, rewritten)
		return nil
	})
	return n, done, ch, err
}

// store writes pieces at offset, not beyond limit. An error counts only where
// nothing was stored.
func store(o *openFile, offset uint64, data [][]byte, limit uint64) (n int, err error) {
	at, direct := o.File.(io.WriterAt)
	if !direct {
		if _, err := o.Seek(int64(offset), io.SeekStart); err != nil {
			return 0, err
		}
	}
	for _, p := range data {
		p = p[:min(uint64(len(p)), limit-offset-uint64(n))]
		if len(p) == 0 {
			continue
		}
		var m int
		if direct {
			m, err = at.WriteAt(p, int64(offset)+int64(n))
		} else {
			m, err = o.File.Write(p)
		}
		if m < 0 || m > len(p) {
			return n, syscall.EIO
		}
		n += m
		if err == nil && m < len(p) {
			err = io.ErrShortWrite
		}
		if err != nil {
			break
		}
	}
	return n, err
}

// Commit implements vfs.FileSystem.
func (f *FS) Commit(op *vfs.Op, h vfs.Handle, offset uint64, count uint32) (ch vfs.Change, err error) {
	err = f.alter(op, func() error {
		n, err := f.changing(h, &ch)
		if err == nil {
			err = n.isFile()
		}
		if err != nil {
			return err
		}
		if !f.readOnly {
			o, err := f.file(n, true)
			if err != nil {
				return err
			}
			if _, err := f.stabilise(n, o); err != nil {
				return err
			}
		}
		f.changed(n, &ch, looked)
		return nil
	})
	return ch, err
}
