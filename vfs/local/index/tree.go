package index

import (
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A Tree is the directory tree in which an Index finds files. All descriptors are O_PATH. Any
// goroutine may call the methods.
type Tree interface {
	OpenRoot() (fd int, err error)
	// OpenName opens name in the directory dir. It follows no symlink and crosses no mount point.
	OpenName(dir int, name []byte) (fd int, err error)
	// Identify returns the handle of the file open on fd, and whether it is a directory.
	Identify(fd int) (h vfs.Handle, directory bool, err error)
	// Names calls a function, its last argument, for every name in the directory dir except "." and
	// "..", until the function returns false. The name is valid only during that call of the
	// function.
	Names(dir int, each func(name []byte) bool) error
}

// outOfDescriptors reports whether err means that the process, or the system, has no descriptor
// left. Such an error says nothing about the file.
func outOfDescriptors(err error) bool { return err == syscall.EMFILE || err == syscall.ENFILE }
