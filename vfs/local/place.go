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
	var buf [unix.PathMax]byte
	n, err := fs.pathOf(d.fd, &buf)
	if err != nil {
		return 0, "", err
	}
	if path = string(buf[:n]); !strings.HasPrefix(path, "/") {
		return 0, "", syscall.ENOENT // no path of this process leads to the mount
	}
	return fs.mountID, path, nil
}
