package local

import (
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A layersResolver finds files of an overlayfs with nfs_export=on, which opens handles. The descriptor of
// a file that no path has led to since the kernel last forgot it is disconnected: the kernel does not
// know a name of the file. A change through it copies the file up without a name in the upper layer. The
// next mount takes that copy for one of a removed file, and deletes it: what was written is lost, and the
// name gives EIO (seen on Linux 6.18). So the resolver opens such a file by a name, which the index knows
// or searches for.
type layersResolver struct {
	fs       *FS
	resolver // finds a file by a name: an *index.Index, or noNames
}

// Open implements resolver.
func (r layersResolver) Open(h vfs.Handle) (int, error) {
	fd, err := r.fs.openKernelHandle(&h)
	if err != nil || !r.fs.disconnected(fd) {
		return fd, err
	}
	unix.Close(fd)
	return r.resolver.Open(h)
}

// noNames stands for the index if there is no state directory for it: a file of which the kernel knows no name is stale.
type noNames struct{ kernelResolver }

// Open implements resolver.
func (noNames) Open(vfs.Handle) (int, error) { return -1, syscall.ESTALE }

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
