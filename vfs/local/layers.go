package local

import (
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local/index"
)

// A layersResolver finds files of an overlayfs with nfs_export=on, which opens handles. The descriptor of
// a file that no path has led to since the kernel last forgot it is disconnected: the kernel does not
// know a name of the file. A change through it copies the file up without a name in the upper layer. The
// next mount takes that copy for one of a removed file, and deletes it: what was written is lost, and the
// name gives EIO (seen on Linux 6.18). So the resolver opens such a file by a name, which the index knows
// or searches for.
type layersResolver struct {
	fs *FS
	// Index is nil if there is no state directory. Handles of disconnected files are stale then.
	*index.Index
}

// Open implements resolver.
func (r layersResolver) Open(h vfs.Handle) (int, error) {
	fd, err := r.fs.openKernelHandle(&h)
	if err != nil || !r.fs.disconnected(fd) {
		return fd, err
	}
	unix.Close(fd)
	if r.Index == nil {
		return -1, syscall.ESTALE
	}
	return r.Index.Open(h)
}

// Note implements resolver.
func (r layersResolver) Note(dir, h vfs.Handle, name []byte) {
	if r.Index != nil {
		r.Index.Note(dir, h, name)
	}
}

// Room implements resolver.
func (r layersResolver) Room(try bool) bool { return r.Index == nil || r.Index.Room(try) }

// Gone implements resolver.
func (r layersResolver) Gone(dir, h vfs.Handle, name []byte, last bool) {
	if r.Index != nil {
		r.Index.Gone(dir, h, name, last)
	}
}

// Close implements resolver.
func (r layersResolver) Close() error {
	if r.Index == nil {
		return nil
	}
	return r.Index.Close()
}

// disconnected reports whether the kernel knows no name of the file open on fd. The path of such a
// descriptor is "/". The kernel looks for the names of a directory itself, so a directory is never
// disconnected.
func (fs *FS) disconnected(fd int) bool {
	var path [2]byte
	n, err := sysReadlinkat(fs.proc, strconv.Itoa(fd), path[:])
	if err != nil || string(path[:n]) != "/" {
		return false
	}
	var st unix.Stat_t
	return sysFstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR
}
