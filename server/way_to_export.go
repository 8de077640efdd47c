package server

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// ways lead to the directories of exports.
type ways struct {
	all []ExportConfig
	at  []*location // by export; nil: it is not known
}

func waysTo(all []ExportConfig) *ways {
	return &ways{all: all, at: (&Config{Exports: all}).locateExports()}
}

// A way is one that was gone.
type way struct {
	fd int // the directory
	// within is the directory of another export that the way leads through, or "". Its
	// clients may have changed what is there.
	within string
	// mount: the directory is where something is mounted.
	mount bool
}

// maxLinks is how many symbolic links a way may have, as the kernel has it (path_resolution(7)).
const maxLinks = 40

// walk goes to the directory of an export. Symbolic links on the way are followed, but for those
// in another export: its clients make such links, and would choose by one which directory of
// this machine the export is. That is a *lostRoot.
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
		var here, next unix.Statx_t
		if err := unix.Statx(at.fd, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS, &here); err != nil {
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
		if at.within == "" {
			at.within = w.rootOf(export, &here)
		}
		if err := unix.Statx(at.fd, name, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BASIC_STATS, &next); err != nil {
			return nil, fmt.Errorf("%s: %w", dir, &os.PathError{Op: "look at", Path: name, Err: err})
		}
		link := next.Mode&unix.S_IFMT == unix.S_IFLNK
		if at.within == "" && (link || len(left) == 0) {
			at.within = w.holder(export, at.fd)
		}
		if !link {
			if err := step(at.fd, name); err != nil {
				return nil, err
			}
			at.mount = next.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
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

// namesIn are the names that a path goes through.
func namesIn(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(name string) bool { return name == "" || name == "." })
}

// rootOf is the directory of another export that here is, or "".
func (w *ways) rootOf(export int, here *unix.Statx_t) string {
	this := inode{here.Dev_major, here.Dev_minor, here.Ino}
	for i, l := range w.at {
		if i != export && l != nil && l.chain[0] == this {
			return w.all[i].Path.Path
		}
	}
	return ""
}

// holder is the directory of another export that holds the directory fd, or "".
func (w *ways) holder(export, fd int) string {
	here, err := locateFD(fd)
	if err != nil {
		return ""
	}
	for i, l := range w.at {
		if i != export && l != nil && l.holds(here) {
			return w.all[i].Path.Path
		}
	}
	return ""
}
