package exports

import (
	"errors"
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
	// stored has the roots in the state directory, unless err says why they cannot be read.
	stored roots
	err    error
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
				within = w.other(i, func(l *location) bool { return l.reaches(inner) })
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
