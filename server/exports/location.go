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
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
)

// KeepApart returns an error if the state directory lies within an export, or an export within the
// state directory, because clients could read the key that signs file handles, and then forge
// handles of any file. It also checks with keepExportsApart that the exports do not weaken each
// other. It runs before the server creates anything in the state directory, which may not exist
// yet.
func KeepApart(c *config.Config) error {
	dir, whole := Existing(c.StateDir)
	state, err := locate(dir)
	if err != nil {
		return nil // opening the state directory will fail with an explanation
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
		return c.At(errors.New(how+", where clients could read the key that seals handles: give a state directory outside of every export (state_dir, --state-dir)"),
			"state_dir", config.ExportKey(i))
	}
	return keepExportsApart(c, at)
}

// keepExportsApart compares each pair of an outer export and an inner export, whose directory lies
// in the outer one. It returns an error if the outer export serves more clients or accepts weaker
// flavors, unless the inner export has the option nested. The reason is that clients can access the
// inner export's files through the outer export, and then the options of the outer export apply:
// with NFSv3 they look up the inner directory, and with any version they can use a handle that
// another client got. The argument at has the locations of the exports' directories; a location is
// nil if the directory cannot be opened.
func keepExportsApart(c *config.Config, at []*location) error {
	all := make([]*export.Export, len(at)) // nil if opening the export will fail with an explanation
	for i := range all {
		if at[i] != nil {
			all[i], _ = describe(&c.Exports[i])
		}
	}
	for i, inner := range all {
		if inner == nil || inner.Nested {
			continue
		}
		for j, outer := range all {
			if outer == nil || !at[j].holds(at[i]) || at[i].holds(at[j]) {
				continue
			}
			if why := outer.Opener(inner); why != "" {
				return c.At(fmt.Errorf("export %s lies in export %s, whose clients reach its files, too, and that %s: "+
					"give both the same clients= and sec=, or move one of them to another file system, or add the option nested where this is meant",
					inner.Name, outer.Name, why), config.ExportKey(i))
			}
		}
	}
	return nil
}

// locateExports returns the location of each export's directory, in the order of the argument. A
// location is nil if the directory cannot be opened; opening the export will then fail with an
// explanation.
func locateExports(all []config.Export) []*location {
	at := make([]*location, len(all))
	for i := range all {
		at[i], _ = locate(all[i].Path.Path)
	}
	return at
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
	// device is the file system, and path the directory's path from the root of the file system. So
	// two locations can be compared even if they are in different mounts of one file system. Both
	// are empty if unknown.
	device, path string
}

type inode struct {
	major, minor uint32
	number       uint64
}

func inodeOf(st *unix.Statx_t) inode { return inode{st.Dev_major, st.Dev_minor, st.Ino} }

// holds reports whether inner is l or lies within it.
func (l *location) holds(inner *location) bool {
	return slices.Contains(inner.chain, l.chain[0]) || l.device != "" && l.device == inner.device &&
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

// locateFD returns the location of the directory with the descriptor dir.
func locateFD(dir int) (*location, error) {
	name, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(dir))
	if err != nil {
		return nil, err
	}
	l := new(location)
	err = climb(dir, func(_ int, st *unix.Statx_t) (bool, error) {
		if len(l.chain) == 0 {
			l.device, l.path = placeOnDevice(st.Mnt_id, name)
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

// placeOnDevice returns the file system that a mount shows, and the path of a directory from the
// root of the file system. The argument name is the directory's path in this process. Both results
// are empty if unknown.
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

// ways has the exports of a configuration. Its method walk follows the path to the directory of
// one of them.
type ways struct {
	all []config.Export
	at  []*location // the locations of the directories, in the order of all; nil if unknown
}

// maxLinks is the largest number of symbolic links on a path, the same as the kernel's limit
// (path_resolution(7)).
const maxLinks = 40

// walk opens the directory of an export, and returns its descriptor. If the path leads through the
// directory of another export, within is that directory's path, because clients of the other export
// can change the rest of the path; otherwise within is "". walk follows symbolic links on the path,
// except within another export, whose clients could choose the directory by such a link. If it finds
// a link there, it returns a *lostRoot.
func (w *ways) walk(i int) (fd int, within string, err error) {
	dir := w.all[i].Path.Path
	fd = -1
	defer func() {
		if err != nil && fd >= 0 {
			unix.Close(fd)
		}
		if _, lost := errors.AsType[*lostRoot](err); err != nil && !lost {
			err = fmt.Errorf("%s: %w", dir, err)
		}
	}()
	step := func(from int, name string) error {
		next, err := unix.Openat2(from, name, &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
		if err != nil {
			return &os.PathError{Op: "open", Path: name, Err: err}
		}
		if fd >= 0 {
			unix.Close(fd)
		}
		fd = next
		return nil
	}
	if err := step(unix.AT_FDCWD, "/"); err != nil {
		return fd, "", err
	}
	left := namesIn(dir)
	for links := 0; len(left) > 0; {
		name := left[0]
		left = left[1:]
		here, err := status(fd)
		if err != nil {
			return fd, "", err
		}
		if within == "" {
			within = w.other(i, func(l *location) bool { return l.chain[0] == inodeOf(&here) })
		}
		var next unix.Statx_t
		if err := unix.Statx(fd, name, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BASIC_STATS, &next); err != nil {
			return fd, "", &os.PathError{Op: "look at", Path: name, Err: err}
		}
		link := next.Mode&unix.S_IFMT == unix.S_IFLNK
		if within == "" && (link || len(left) == 0) {
			if inner, err := locateFD(fd); err == nil {
				within = w.other(i, func(l *location) bool { return l.holds(inner) })
			}
		}
		if !link {
			if err := step(fd, name); err != nil {
				return fd, "", err
			}
			continue
		}
		if within != "" {
			return fd, "", &lostRoot{fmt.Sprintf("%q on the way to %s is a symbolic link, and lies in %s, whose clients may have put it there: name the directory itself", name, dir, within)}
		}
		if links++; links > maxLinks {
			return fd, "", unix.ELOOP
		}
		target := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(fd, name, target)
		if err != nil {
			return fd, "", &os.PathError{Op: "read", Path: name, Err: err}
		}
		if target[0] == '/' {
			if err := step(unix.AT_FDCWD, "/"); err != nil {
				return fd, "", err
			}
		}
		left = append(namesIn(string(target[:n])), left...)
	}
	return fd, within, nil
}

// namesIn returns the names in a path.
func namesIn(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(name string) bool { return name == "" || name == "." })
}

// other returns the path of an export whose directory's location satisfies the function, or "". It
// leaves out the export with the given number.
func (w *ways) other(than int, satisfies func(*location) bool) string {
	for i, l := range w.at {
		if i != than && l != nil && satisfies(l) {
			return w.all[i].Path.Path
		}
	}
	return ""
}
