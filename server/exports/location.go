package exports

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/internal/mountinfo"
	"github.com/nfsrdmad/nfsrdmad/server/config"
)

// KeepApart returns an error if the state directory lies within an export, or an export within the
// state directory, because clients could read the key that signs file handles, and then forge
// handles of any file. It also checks with keepExportsApart that the exports do not weaken each
// other. It runs before the server creates anything in the state directory, which may not exist
// yet. It does not look at stopped exports, because their directories may hang, and other file systems may be at their
// paths; the opening of an export checks the same.
func KeepApart(c *config.Config) error {
	dir, whole := Existing(c.StateDir)
	state, err := locate(dir)
	if err != nil {
		return nil // opening the state directory will fail with an explanation
	}
	stopped, _ := ReadStopped(c.StateDir) // Offer.Recall explains the error
	at := locateExports(c.Exports, stopped)
	for i, root := range at {
		if root == nil {
			continue
		}
		e := &c.Exports[i]
		var how string
		switch {
		case root.chain[0] == state.chain[0] && whole:
			how = fmt.Sprintf("state directory %s is the export %s", c.StateDir, e.Path.Path)
		case root.holds(state):
			how = fmt.Sprintf("state directory %s lies within the export %s", c.StateDir, e.Path.Path)
		case whole && state.holds(root):
			how = fmt.Sprintf("export %s lies within the state directory %s", e.Path.Path, c.StateDir)
		default:
			continue
		}
		return c.At(errors.New(how+", where clients could read the key that seals handles: give a state directory outside of every export (state_dir, --state-dir)"),
			"state_dir", config.ExportKey(i))
	}
	return keepExportsApart(c, at)
}

// Existing returns the longest part of a path, from the root on, that exists. whole reports whether
// the whole path exists.
func Existing(path string) (dir string, whole bool) {
	dir, err := filepath.Abs(path)
	if err != nil {
		return path, true
	}
	for whole = true; dir != "/"; whole, dir = false, filepath.Dir(dir) {
		if _, err := os.Stat(dir); err == nil {
			break
		}
	}
	return dir, whole
}

// A location identifies a directory and the directories above it, whatever path or mount leads to
// it.
type location struct {
	// chain has the directory itself and the directories above it, up to the root of its mount. It
	// ends there because an export does not extend beyond a mount either.
	chain []inode
	// place is the directory's place. So two locations can be compared even if they are in different
	// mounts of one file system.
	place
	// mount is the ID of the mount that contains the directory, and name the directory's path in this
	// process.
	mount uint64
	name  string
	// kind is the type of the file system in mountinfo, such as "ext4"; "" if unknown.
	kind string
	// mounts has the mounts below the directory that are part of the export (see locateExports).
	mounts []reached
}

// A place is a directory of a file system, whatever mount leads to it.
type place struct {
	// device is the st_dev of the file system in mountinfo (proc(5)), and path the directory's path
	// from the root of the file system. Both are empty if unknown.
	device, path string
}

// holds reports whether inner is p or lies within it.
func (p place) holds(inner place) bool {
	return p.device != "" && p.device == inner.device &&
		(p.path == "/" || inner.path == p.path || strings.HasPrefix(inner.path, p.path+"/"))
}

type inode struct {
	major, minor uint32
	number       uint64
}

func inodeOf(st *unix.Statx_t) inode { return inode{st.Dev_major, st.Dev_minor, st.Ino} }

// holds reports whether inner is l or lies within it.
func (l *location) holds(inner *location) bool {
	return slices.Contains(inner.chain, l.chain[0]) || l.place.holds(inner.place)
}

// cloned returns a copy of p that does not keep alive the text that p was read from.
func (p place) cloned() place { return place{strings.Clone(p.device), strings.Clone(p.path)} }

func locate(dir string) (*location, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return locateFD(fd)
}

// locateFD returns the location of the directory with the descriptor dir.
func locateFD(dir int) (*location, error) {
	name, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(dir))
	if err != nil {
		return nil, err
	}
	l := &location{name: name}
	err = climb(dir, func(_ int, st *unix.Statx_t) (bool, error) {
		if len(l.chain) == 0 {
			l.mount = st.Mnt_id
			l.place, l.kind = placeOnDevice(st.Mnt_id, name)
		}
		l.chain = append(l.chain, inodeOf(st))
		return st.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0, nil
	})
	if len(l.chain) == 0 {
		return nil, err
	}
	return l, nil // if this process may not search a parent, holds compares device and path instead
}

// climb calls visit for the directory with the descriptor dir, and then for each directory above it
// up to the root directory of the process, until visit returns false or an error. The descriptor
// that visit gets is open during the call.
func climb(dir int, visit func(fd int, st *unix.Statx_t) (more bool, err error)) error {
	fd, err := unix.FcntlInt(uintptr(dir), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { unix.Close(fd) }()
	var below unix.Statx_t
	for {
		st, err := status(fd)
		if err != nil {
			return err
		}
		if st.Mnt_id == below.Mnt_id && inodeOf(&st) == inodeOf(&below) {
			return nil
		}
		below = st
		if more, err := visit(fd, &st); !more || err != nil {
			return err
		}
		above, err := unix.Openat(fd, "..", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		unix.Close(fd)
		fd = above
	}
}

// placeOnDevice returns the place of a directory in the file system that a mount shows, and the type of
// this file system. The argument name is the directory's path in this process. What is unknown is empty.
func placeOnDevice(mount uint64, name string) (p place, kind string) {
	all, err := mountinfo.Read()
	if err != nil {
		return place{}, ""
	}
	m := mountinfo.Find(all, mount)
	if m == nil {
		return place{}, ""
	}
	return placeIn(m, name), strings.Clone(m.Kind)
}

// placeIn returns the place of a directory with the path name in the mount m, which may be nil.
func placeIn(m *mountinfo.Mount, name string) place {
	if m == nil {
		return place{}
	}
	beneath, found := strings.CutPrefix(name, strings.TrimSuffix(m.Point, "/"))
	if !found {
		return place{}
	}
	return place{m.Device, filepath.Join(m.Root, beneath)}
}
