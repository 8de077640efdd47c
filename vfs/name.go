package vfs

import (
	"bytes"
	"syscall"
)

// CheckName says whether name can be that of one component of a path, as a
// FileSystem takes them: EINVAL if it is empty or has '/' or NUL in it,
// ENAMETOOLONG if it has more than longest bytes.
func CheckName(name []byte, longest int) error {
	switch {
	case len(name) == 0:
		return syscall.EINVAL
	case len(name) > longest:
		return syscall.ENAMETOOLONG
	case bytes.IndexByte(name, '/') >= 0, bytes.IndexByte(name, 0) >= 0:
		return syscall.EINVAL
	}
	return nil
}

// IsDot says that name is "." or "..", which no file can be called.
func IsDot(name []byte) bool { return string(name) == "." || string(name) == ".." }
