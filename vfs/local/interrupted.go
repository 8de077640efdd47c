package local

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// A file system in user space, or on a network, may answer EINTR to any system call that a signal
// interrupts, and the Go runtime sends signals to its threads all the time. If a call of a client failed
// for that after it has changed something, the client would make the change again, and be told that
// the name exists, or that it does not. So this package repeats every system call on a served file that
// returns EINTR.

// uninterrupted repeats a system call that a signal interrupts.
func uninterrupted(call func() error) error {
	for {
		if err := call(); err != syscall.EINTR {
			return err
		}
	}
}

// again is uninterrupted for a call with a result.
func again[T any](call func() (T, error)) (T, error) {
	for {
		if v, err := call(); err != syscall.EINTR {
			return v, err
		}
	}
}

func sysFstat(fd int, st *unix.Stat_t) error {
	return uninterrupted(func() error { return unix.Fstat(fd, st) })
}

func sysFstatfs(fd int, s *unix.Statfs_t) error {
	return uninterrupted(func() error { return unix.Fstatfs(fd, s) })
}

func sysStatx(dir int, name string, flags, mask int, sx *unix.Statx_t) error {
	return uninterrupted(func() error { return unix.Statx(dir, name, flags, mask, sx) })
}

func sysSeek(fd int, offset int64, whence int) (int64, error) {
	return again(func() (int64, error) { return unix.Seek(fd, offset, whence) })
}

func sysReadlinkat(dir int, name string, buf []byte) (int, error) {
	return again(func() (int, error) { return unix.Readlinkat(dir, name, buf) })
}
