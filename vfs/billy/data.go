package billy

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"syscall"

	gobilly "github.com/go-git/go-billy/v5"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// isFile returns nil for a regular file, and otherwise the error of an access to its data.
func (n *node) isFile() error {
	switch n.kind {
	case vfs.Regular:
		return nil
	case vfs.Directory:
		return syscall.EISDIR
	}
	return syscall.EINVAL
}

// forWriting returns the flag to open a file for writing, and for reading, too, if that is supported.
func (f *FS) forWriting() int {
	if gobilly.CapabilityCheck(f.bfs, gobilly.ReadAndWriteCapability) {
		return os.O_RDWR
	}
	return os.O_WRONLY
}

// using opens a file, calls the function do with it, and closes it.
func using(open func() (gobilly.File, error), do func(file gobilly.File) error) (err error) {
	file, err := open()
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, file.Close()) }()
	return do(file)
}

// writing opens n's file, calls the function do to write to it, and closes it. Clients may write
// to a file that one of them created even if its mode is read-only. If such a mode prevents
// opening the file, writing changes the mode for a moment.
func (f *FS) writing(n *node, do func(file gobilly.File) error) error {
	return f.at(n, "", func(path string) error {
		return using(func() (gobilly.File, error) {
			file, err := f.bfs.OpenFile(path, f.forWriting(), 0)
			if !errors.Is(err, fs.ErrPermission) || !n.made || f.chmod == nil {
				return file, err
			}
			mode := n.seen.Mode
			if err := f.setMode(n, mode|0o600); err != nil {
				return nil, err
			}
			defer f.setMode(n, mode)
			return f.bfs.OpenFile(path, f.forWriting(), 0)
		}, do)
	})
}

// tries is the number of times that Read tries, if other programs cut the file meanwhile.
const tries = 8

// Read implements vfs.FileSystem. It leaves out bytes beyond the size in a, which it has read before
// the bytes.
func (f *FS) Read(op *vfs.Op, h vfs.Handle, offset uint64, buf []byte, a *vfs.Attr) (int, bool, error) {
	var first uint64
	for try := range tries {
		n, ended, err := f.read(op, h, offset, buf, a)
		if err != nil {
			return 0, false, err
		}
		left := a.Size - min(offset, a.Size)
		n = int(min(uint64(n), left))
		short := n < len(buf) && uint64(n) < left
		if try == 0 {
			first = a.Change
		}
		if short && ended && (try < tries-1 || a.Change != first) {
			continue // the file was cut after its attributes were read
		}
		return n, uint64(n) == left || ended && short, nil
	}
	return 0, false, vfs.ErrDelay
}

// read reads the attributes of h, and then bytes of its file. ended reports that the file has no more.
func (f *FS) read(op *vfs.Op, h vfs.Handle, offset uint64, buf []byte, a *vfs.Attr) (n int, ended bool, err error) {
	if op.Try {
		return 0, false, vfs.ErrWouldBlock
	}
	f.reading.RLock()
	defer f.reading.RUnlock()
	var open func() (gobilly.File, error)
	err = f.look(op, func() error {
		nd, err := f.get(h, a)
		if err == nil {
			err = nd.isFile()
		}
		if err != nil || offset >= a.Size || len(buf) == 0 {
			return err
		}
		return f.at(nd, "", func(path string) error {
			open = func() (gobilly.File, error) { return f.bfs.OpenFile(path, os.O_RDONLY, 0) }
			return nil
		})
	})
	if err != nil || open == nil {
		return 0, false, err
	}
	err = using(open, func(file gobilly.File) (err error) {
		n, err = file.ReadAt(buf[:min(uint64(len(buf)), math.MaxInt64-offset)], int64(offset))
		if errors.Is(err, io.EOF) {
			ended, err = true, nil
		} else if err == nil && n == 0 {
			err = io.ErrNoProgress
		}
		return err
	})
	return n, ended, errno(err)
}

// Write implements vfs.FileSystem.
func (f *FS) Write(op *vfs.Op, h vfs.Handle, offset uint64, data [][]byte, stable vfs.Stability) (n int, done vfs.Stability, ch vfs.Change, err error) {
	size := 0
	for _, p := range data {
		size += len(p)
	}
	err = f.alter(op, h, &ch, func(nd *node) error {
		switch err := nd.isFile(); {
		case err != nil:
			return err
		case size == 0:
			done = stable
			return nil
		case offset > f.opt.MaxFileSize, uint64(size) > f.opt.MaxFileSize-offset:
			return syscall.EFBIG
		}
		return f.writing(nd, func(file gobilly.File) (err error) {
			n, err = store(file, offset, data)
			if n == 0 {
				return err
			}
			nd.did = rewritten
			f.dropSetID(nd, &ch.Before)
			if stable == vfs.Unstable {
				return nil
			}
			done, err = f.stabilise(file)
			return err
		})
	})
	if err != nil {
		return 0, vfs.Unstable, ch, err
	}
	return n, done, ch, nil
}

// store writes the pieces at offset and returns the number of bytes written. If that number is
// more than 0, the caller ignores the error.
func store(file gobilly.File, offset uint64, data [][]byte) (n int, err error) {
	var w io.Writer = file
	if at, ok := file.(io.WriterAt); ok {
		w = io.NewOffsetWriter(at, int64(offset))
	} else if _, err := file.Seek(int64(offset), io.SeekStart); err != nil {
		return 0, err
	}
	for _, p := range data {
		m, err := w.Write(p)
		n += m
		if err == nil && m < len(p) {
			err = io.ErrShortWrite
		}
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// Commit implements vfs.FileSystem.
func (f *FS) Commit(op *vfs.Op, h vfs.Handle, offset uint64, count uint32) (ch vfs.Change, err error) {
	if f.readOnly { // nothing is ever written
		return ch, f.GetAttr(op, h, &ch.After)
	}
	err = f.alter(op, h, &ch, func(n *node) error {
		if err := n.isFile(); err != nil {
			return err
		}
		return f.writing(n, func(file gobilly.File) error {
			_, err := f.stabilise(file)
			return err
		})
	})
	return ch, err
}

// stabilise puts the written data on stable storage, if possible, and returns how stable the data is.
func (f *FS) stabilise(file gobilly.File) (stable vfs.Stability, err error) {
	if s, ok := file.(interface{ Sync() error }); ok {
		err = s.Sync()
	} else if f.opt.Sync != nil {
		err = f.opt.Sync(file)
	} else {
		return vfs.Unstable, nil // the file system has no sync; all that is left is to close the file
	}
	if err != nil {
		f.verifier.Add(1)
		return vfs.Unstable, err
	}
	return vfs.FileSync, nil
}
