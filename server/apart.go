package server

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/internal/mountinfo"
)

// keepApart refuses a state directory within an export, and an export within the
// state directory: clients could read the key that seals handles, and so make up
// handles of anything. It is asked before anything is made in the state
// directory, which may not be there yet.
func (c *Config) keepApart() error {
	dir, whole := existing(c.StateDir)
	state, err := locate(dir)
	if err != nil {
		return nil // to make it will fail, and say why
	}
	at := c.locateExports()
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
		if !c.says(key) {
			key = exportKey(i)
		}
		return &keyError{key, errors.New(how + ", where clients could read the key that seals handles: give a state directory outside of every export (state_dir, --state-dir)")}
	}
	return c.keepExportsApart(at)
}

// locateExports says where the directories of the exports are, in their order; nil for one that
// is not there: to open it will fail, and say why.
func (c *Config) locateExports() []*location {
	at := make([]*location, len(c.Exports))
	for i := range c.Exports {
		at[i], _ = locate(c.Exports[i].Path.Path)
	}
	return at
}

// existing is the part of a path that is there, and whether that is all of it.
func existing(path string) (dir string, whole bool) {
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

// A location is where a directory is on its file system, by whichever path and
// mount it is reached.
type location struct {
	// chain is the directory itself and those above it, up to the root of the
	// mount that it is reached by: an export ends at mounts, too.
	chain []inode
	// device and path are its place as the file system has it, which several
	// mounts may show different parts of; empty where that cannot be known.
	device, path string
}

type inode struct {
	major, minor uint32
	number       uint64
}

// holds: inner is l, or within it.
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

// locateFD is locate for a directory that fd names.
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
		this := inode{st.Dev_major, st.Dev_minor, st.Ino}
		if n := len(l.chain); n > 0 && l.chain[n-1] == this {
			return l, nil // the root of the process
		}
		l.chain = append(l.chain, this)
		if st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 {
			return l, nil
		}
		above, err := unix.Openat(fd, "..", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return l, nil // what this process may not look into is left to the path
		}
		unix.Close(fd)
		fd = above
	}
}

// placeOnDevice says which directory of which file system a path names, from the
// mount that it is on, or nothing.
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
