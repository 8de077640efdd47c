package local

import (
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

var _ vfs.Placed = (*FS)(nil)

// Place implements vfs.Placed.
func (fs *FS) Place(op *vfs.Op, dir vfs.Handle) (mount uint64, path string, err error) {
	d, err := fs.dir(op, dir)
	if err != nil {
		return 0, "", err
	}
	defer fs.giveBack(op, d)
	var name [24]byte
	var buf [unix.PathMax + 1]byte
	n, err := unix.Readlinkat(fs.proc, unix.ByteSliceToString(procName(&name, d.fd)), buf[:])
	switch {
	case err != nil:
		return 0, "", err
	case n == len(buf):
		return 0, "", syscall.ENAMETOOLONG
	}
	if path = string(buf[:n]); !strings.HasPrefix(path, "/") {
		return 0, "", syscall.ENOENT // its mount is not where this process could see it
	}
	return fs.mountID, path, nil
}
