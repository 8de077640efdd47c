package local

import (
	"errors"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A resolver finds files again that handles were given out for.
type resolver interface {
	scheme() string
	// open returns an O_PATH descriptor of h's file; a directory lies below the root.
	// ESTALE: there is none any more. ErrDelay: it is being looked for.
	open(h vfs.Handle) (int, error)
	// note: h was seen under name in dir. It never waits.
	note(dir, h vfs.Handle, name []byte)
	// room says whether there is room to note more. It waits for that, unless try
	// says not to.
	room(try bool) bool
	// gone: name in dir is not h any more. last: h has no other. It never waits.
	gone(dir, h vfs.Handle, name []byte, last bool)
	close() error
}

// kernelResolver lets the kernel do it.
type kernelResolver struct{ fs *FS }

func (kernelResolver) scheme() string                         { return "kernel" }
func (kernelResolver) note(_, _ vfs.Handle, _ []byte)         {}
func (kernelResolver) room(bool) bool                         { return true }
func (kernelResolver) gone(_, _ vfs.Handle, _ []byte, _ bool) {}
func (kernelResolver) close() error                           { return nil }
func (r kernelResolver) open(h vfs.Handle) (int, error)       { return r.fs.openKernelHandle(&h) }

func (fs *FS) openKernelHandle(h *vfs.Handle) (int, error) {
	b := h.Bytes()
	if len(b) <= 2 || b[0] != kernelHandle {
		return -1, syscall.ESTALE // made when this file system had no handles
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

// memoryTries is how often a handle is opened that the kernel says it has no
// memory for. It also says so for some moments of a file that is just going
// away: the inode is found, and lost before it has an entry in the kernel's cache
// of names, or its number is another file's that is just being made. The first tries are
// made at once, for that is over soon as a rule, and the others a millisecond apart, for
// where the process that makes or removes the file does not run.
const (
	memoryTries     = 16
	memoryTriesSoon = 8
)

// openHandle returns an O_PATH descriptor of what a kernel's handle names.
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

// canOpenHandles probes open_by_handle_at with the root's own handle.
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
