package vfs

import (
	"bytes"
	"syscall"
)

// CheckName checks that name can be one component of a path. It returns EINVAL if name is empty
// or contains '/' or NUL, and ENAMETOOLONG if it has more than longest bytes.
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

// IsDot reports whether name is "." or "..". No file can have these names.
func IsDot(name []byte) bool { return string(name) == "." || string(name) == ".." }
