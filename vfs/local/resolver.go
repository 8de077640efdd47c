package local

import (
	"errors"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A resolver finds the files of handles. It is a kernelResolver or an *index.Index.
type resolver interface {
	// Open returns an O_PATH descriptor of h's file. ESTALE: the file does not exist, or it is a
	// directory that does not lie below the root. ErrDelay: the index has to search for the file,
	// and the search has not begun or not ended yet.
	Open(h vfs.Handle) (int, error)
	// Note records that name in the directory dir belongs to the file h. Note never waits.
	Note(dir, h vfs.Handle, name []byte)
	// Room reports whether Note can take more names. If too many names wait to be written to disk,
	// Room waits until fewer do, unless try is set.
	Room(try bool) bool
	// Gone records that name in dir no longer belongs to h. last is true if h has no name any more.
	// Gone never waits.
	Gone(dir, h vfs.Handle, name []byte, last bool)
	Close() error
}

// kernelResolver finds files with open_by_handle_at.
type kernelResolver struct{ fs *FS }

func (kernelResolver) Note(_, _ vfs.Handle, _ []byte)         {}
func (kernelResolver) Room(bool) bool                         { return true }
func (kernelResolver) Gone(_, _ vfs.Handle, _ []byte, _ bool) {}
func (kernelResolver) Close() error                           { return nil }
func (r kernelResolver) Open(h vfs.Handle) (int, error)       { return r.fs.openKernelHandle(&h) }

func (fs *FS) openKernelHandle(h *vfs.Handle) (int, error) {
	b := h.Bytes()
	if len(b) <= 2 || b[0] != kernelHandle {
		return -1, syscall.ESTALE // the handle was made when this file system had no handles
	}
	fd, err := openHandle(fs.mount, int32(b[1]), b[2:])
	if err != nil {
		if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOENT) {
			err = syscall.ESTALE
		}
		return -1, err
	}
	if fs.bounded {
		return fd, nil
	}
	var st unix.Stat_t
	if err = fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		err = fs.below(fd, &st)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// memoryTries is the number of times that openHandle tries if the kernel reports ENOMEM, which it
// also does for a short time while a file is being removed or made. The first memoryTriesSoon tries
// follow one another at once; the later ones are a millisecond apart, in case the process that makes
// or removes the file is not running.
const (
	memoryTries     = 16
	memoryTriesSoon = 8
)

// openHandle returns an O_PATH descriptor of the file with the given kernel handle.
func openHandle(mount int, kind int32, handle []byte) (fd int, err error) {
	for i := range memoryTries {
		fd, err = sysOpenByHandle(mount, kind, handle, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC)
		if err != syscall.ENOMEM {
			break
		}
		if i < memoryTriesSoon {
			runtime.Gosched()
		} else {
			time.Sleep(time.Millisecond)
		}
	}
	return fd, err
}

// canOpenHandles reports whether open_by_handle_at opens the root's own handle.
func canOpenHandles(mount int, root vfs.Handle) bool {
	b := root.Bytes()
	if b[0] != kernelHandle {
		return false
	}
	fd, err := openHandle(mount, int32(b[1]), b[2:])
	if err != nil {
		return false
	}
	unix.Close(fd)
	return true
}

// indexedTree implements index.Tree for the served tree.
type indexedTree struct{ fs *FS }

// OpenRoot implements index.Tree.
func (t indexedTree) OpenRoot() (int, error) {
	return sysOpenat2(t.fs.mount, dot, unix.O_PATH|unix.O_DIRECTORY, 0, unix.RESOLVE_NO_XDEV)
}

var dot = []byte(".")

// OpenName implements index.Tree.
func (indexedTree) OpenName(dir int, name []byte) (int, error) {
	return sysOpenat2(dir, name, unix.O_PATH, 0, unix.RESOLVE_NO_XDEV)
}

// Identify implements index.Tree.
func (indexedTree) Identify(fd int) (h vfs.Handle, directory bool, err error) {
	var st unix.Stat_t
	if err = fstat(fd, &st); err != nil {
		return h, false, err
	}
	h, err = identify(fd, &st)
	return h, st.Mode&unix.S_IFMT == unix.S_IFDIR, err
}

// Names implements index.Tree.
func (t indexedTree) Names(dir int, each func(name []byte) bool) error {
	list, err := t.fs.reopen(dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(list)
	for e, err := range dirents(list, make([]byte, namesAtOnce)) {
		if err != nil || !each(e.name) {
			return err
		}
	}
	return nil
}
