package local

import (
	"math"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A sink is where the bytes that are read go: to memory, or to a pipe.
type sink struct {
	buf  []byte
	pipe *mem.Pipe // nil: buf
	size int       // how many are wanted
}

var (
	_ vfs.PipeReader = (*FS)(nil)
	_ vfs.PipeFile   = (*file)(nil)
)

// ReadPipe implements vfs.PipeReader.
func (fs *FS) ReadPipe(op *vfs.Op, h vfs.Handle, offset uint64, n int, into *mem.Pipe, a *vfs.Attr) (int, bool, error) {
	return fs.readHandle(op, h, offset, sink{pipe: into, size: n}, a)
}

// ReadPipe implements vfs.PipeFile.
func (f *file) ReadPipe(op *vfs.Op, offset uint64, n int, into *mem.Pipe, a *vfs.Attr) (int, bool, error) {
	return f.read(op, offset, sink{pipe: into, size: n}, a)
}

// pipes says whether a read into a pipe can be done here: nil, vfs.ErrNotPiped, or
// vfs.ErrWouldBlock. splice(2) has nothing like RWF_NOWAIT. To ask beforehand what is in
// memory would not do: a page of which the disk has not told the content yet is said to be,
// and another client can make that so. Where the file system is memory, nothing is waited
// for.
func (fs *FS) pipes(op *vfs.Op, offset uint64, to sink) error {
	switch {
	case to.pipe == nil:
		return nil
	case !fs.kind.spliced || fs.noPipes.Load() || offset > math.MaxInt64-uint64(to.size) || !to.pipe.Takes(int64(offset), to.size):
		return vfs.ErrNotPiped
	case op.Try && !fs.kind.pages:
		return vfs.ErrWouldBlock
	}
	return nil
}

// fillPipe reads into a pipe.
func (fs *FS) fillPipe(p *mem.Pipe, fd int, offset int64, size int) (got int, ended bool, err error) {
	got, ended, err = p.Fill(fd, offset, size)
	if err == syscall.EINVAL {
		// The file system has no splice_read after all.
		fs.noPipes.Store(true)
		err = vfs.ErrNotPiped
	}
	return got, ended, err
}
