//go:build !nosync

package local

import "golang.org/x/sys/unix"

// Every call that makes something durable is in this file, so that a program
// built with the tag nosync makes none: a test of power cuts must fail with it.

func sysFsync(fd int) error  { return uninterrupted(unix.Fsync, fd) }
func sysSyncfs(fd int) error { return uninterrupted(unix.Syncfs, fd) }

// uninterrupted: the runtime's signals interrupt some file systems' syncs.
func uninterrupted(call func(int) error, fd int) error {
	for {
		if err := call(fd); err != unix.EINTR {
			return err
		}
	}
}
