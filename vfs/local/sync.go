//go:build !nosync

package local

import "golang.org/x/sys/unix"

// Every call that makes something durable is in this file, so that a program
// built with the tag nosync makes none: a test of power cuts must fail with it.

func sysFsync(fd int) error  { return uninterrupted(func() error { return unix.Fsync(fd) }) }
func sysSyncfs(fd int) error { return uninterrupted(func() error { return unix.Syncfs(fd) }) }
