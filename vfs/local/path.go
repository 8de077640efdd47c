package local

import (
	"os"
	"strings"
	"unique"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

var _ vfs.Pathed = (*FS)(nil)

// PathOf implements vfs.Pathed. The kernel tells the path of an open descriptor from memory, without the disk.
func (fs *FS) PathOf(h vfs.Handle) string {
	if fs.closed.Load() {
		return ""
	}
	n := fs.nodes.cached(&h)
	if n == nil {
		return ""
	}
	defer n.put()
	path, root := n.path(), fs.root.path()
	// The kernel may have opened the file by its handle, and not know in which directory it is.
	if path != root && !strings.HasPrefix(path, strings.TrimSuffix(root, "/")+"/") || path == "/" && n != fs.root {
		return ""
	}
	return path
}

// HandleAt implements vfs.Pathed.
func (fs *FS) HandleAt(path string) (h vfs.Handle, ok bool, err error) {
	fd, err := again(func() (int, error) { return unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0) })
	if err != nil {
		return h, false, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := sysFstat(fd, &st); err != nil {
		return h, false, err
	}
	if on, _ := mountOf(fd); unique.Make(on.Device) != fs.volume {
		return h, false, nil
	}
	h, err = fs.handles.identify(fd, &st)
	return h, err == nil, err
}

// path returns the path of n's descriptor, or "".
func (n *node) path() string {
	path, _ := os.Readlink(n.procPath())
	return path
}
