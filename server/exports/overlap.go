package exports

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/internal/mountinfo"
	"github.com/nfsrdmad/nfsrdmad/server/config"
)

// KeepApart refuses a state directory within an export, and an export within the state directory,
// because clients could read the key that seals handles and make handles of any file. It runs
// before anything is created in the state directory, which may not exist yet.
func KeepApart(c *config.Config) error {
	dir, whole := Existing(c.StateDir)
	state, err := locate(dir)
	if err != nil {
		return nil // opening it will fail with an explanation
	}
	at := locateExports(c.Exports)
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
		key := "state_dir"
		if !c.Says(key) {
			key = config.ExportKey(i)
		}
		return &config.KeyError{Key: key, Err: errors.New(how + ", where clients could read the key that seals handles: give a state directory outside of every export (state_dir, --state-dir)")}
	}
	return keepExportsApart(c.Exports, at)
}

// locateExports returns the locations of the exports' directories, in order. It is nil for a
// directory that does not exist: opening that will fail with an explanation.
func locateExports(all []config.Export) []*location {
	at := make([]*location, len(all))
	for i := range all {
		at[i], _ = locate(all[i].Path.Path)
	}
	return at
}

// Existing returns the longest prefix of a path that exists. whole reports that it is the whole
// path.
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

// A location is the place of a directory on its file system, independent of the path and the
// mount by which it is reached.
type location struct {
	// chain is the directory itself and the directories above it, up to the root of its mount,
	// because an export ends at mounts as well.
	chain []inode
	// device and path are the directory's place on its file system, of which several mounts may
	// show parts. They are empty if unknown.
	device, path string
}

type inode struct {
	major, minor uint32
	number       uint64
}

func inodeOf(st *unix.Statx_t) inode { return inode{st.Dev_major, st.Dev_minor, st.Ino} }

// holds reports whether inner is l or lies within it.
func (l *location) holds(inner *location) bool {
	for _, above := range inner.chain {
		if above == l.chain[0] {
			return true
		}
	}
	return l.device != "" && l.device == inner.device &&
		(l.path == "/" || inner.path == l.path || strings.HasPrefix(inner.path, l.path+"/"))
}

func locate(dir string) (*location, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return locateFD(fd)
}

// locateFD is locate for the directory of a descriptor.
func locateFD(dir int) (*location, error) {
	fd, err := unix.FcntlInt(uintptr(dir), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer func() { unix.Close(fd) }()
	name, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		return nil, err
	}
	l := new(location)
	for {
		var st unix.Statx_t
		if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS|unix.STATX_MNT_ID, &st); err != nil {
			return nil, err
		}
		if len(l.chain) == 0 {
			l.device, l.path = placeOnDevice(st.Mnt_id, name)
		}
		this := inodeOf(&st)
		if n := len(l.chain); n > 0 && l.chain[n-1] == this {
			return l, nil // the root of the process
		}
		l.chain = append(l.chain, this)
		if st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 {
			return l, nil
		}
		above, err := unix.Openat(fd, "..", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return l, nil // this process may not search the parent: device and path decide
		}
		unix.Close(fd)
		fd = above
	}
}

// placeOnDevice returns the file system and the directory on it for a path on the given mount.
// They are empty if unknown.
func placeOnDevice(mount uint64, name string) (device, path string) {
	all, err := mountinfo.Read()
	if err != nil {
		return "", ""
	}
	m := mountinfo.Find(all, mount)
	if m == nil {
		return "", ""
	}
	beneath, found := strings.CutPrefix(name, strings.TrimSuffix(m.Point, "/"))
	if !found {
		return "", ""
	}
	return m.Device, filepath.Join(m.Root, beneath)
}
