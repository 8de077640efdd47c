package exports

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/server/config"
)

// ways has the exports of a configuration. Its method walk follows the path to the directory of
// one of them.
type ways struct {
	all []config.Export
	at  []*location // the locations of the directories, in the order of all; nil if unknown
}

// A way is the result of following the path to an export's directory.
type way struct {
	fd int // the directory
	// If the path leads through the directory of another export, within is that directory's path;
	// otherwise "". Clients of the other export can change the rest of the path.
	within string
}

// maxLinks is the largest number of symbolic links on a path, the same as the kernel's limit
// (path_resolution(7)).
const maxLinks = 40

// walk opens the directory of an export. It follows symbolic links on the path, except within
// another export, whose clients could choose the directory by such a link. If it finds a link
// there, it returns a *lostRoot.
func (w *ways) walk(export int) (_ *way, err error) {
	dir := w.all[export].Path.Path
	at := &way{fd: -1}
	defer func() {
		if err != nil && at.fd >= 0 {
			unix.Close(at.fd)
		}
	}()
	step := func(from int, name string) error {
		fd, err := unix.Openat2(from, name, &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
		if err != nil {
			return fmt.Errorf("%s: %w", dir, &os.PathError{Op: "open", Path: name, Err: err})
		}
		if at.fd >= 0 {
			unix.Close(at.fd)
		}
		at.fd = fd
		return nil
	}
	if err := step(unix.AT_FDCWD, "/"); err != nil {
		return nil, err
	}
	left := namesIn(dir)
	for links := 0; len(left) > 0; {
		name := left[0]
		left = left[1:]
		here, err := status(at.fd)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
		if at.within == "" {
			at.within = w.other(export, func(l *location) bool { return l.chain[0] == inodeOf(&here) })
		}
		var next unix.Statx_t
		if err := unix.Statx(at.fd, name, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BASIC_STATS, &next); err != nil {
			return nil, fmt.Errorf("%s: %w", dir, &os.PathError{Op: "look at", Path: name, Err: err})
		}
		link := next.Mode&unix.S_IFMT == unix.S_IFLNK
		if at.within == "" && (link || len(left) == 0) {
			if inner, err := locateFD(at.fd); err == nil {
				at.within = w.other(export, func(l *location) bool { return l.holds(inner) })
			}
		}
		if !link {
			if err := step(at.fd, name); err != nil {
				return nil, err
			}
			continue
		}
		if at.within != "" {
			return nil, &lostRoot{fmt.Sprintf("%q on the way to %s is a symbolic link, and lies in %s, whose clients may have put it there: name the directory itself", name, dir, at.within)}
		}
		if links++; links > maxLinks {
			return nil, fmt.Errorf("%s: %w", dir, unix.ELOOP)
		}
		target := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(at.fd, name, target)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", dir, &os.PathError{Op: "read", Path: name, Err: err})
		}
		to := string(target[:n])
		if strings.HasPrefix(to, "/") {
			if err := step(unix.AT_FDCWD, "/"); err != nil {
				return nil, err
			}
		}
		left = append(namesIn(to), left...)
	}
	return at, nil
}

// namesIn returns the names in a path.
func namesIn(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(name string) bool { return name == "" || name == "." })
}

// other returns the path of an export whose directory's location satisfies the function, or "". It
// leaves out the export with the given number.
func (w *ways) other(export int, satisfies func(*location) bool) string {
	for i, l := range w.at {
		if i != export && l != nil && satisfies(l) {
			return w.all[i].Path.Path
		}
	}
	return ""
}
