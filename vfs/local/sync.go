//go:build !nosync

package local

import "golang.org/x/sys/unix"

// This file has all system calls that make something durable. A program built with the
// tag nosync makes none of them. The power-cut tests must fail with that program.

func sysFsync(fd int) error  { return uninterrupted(func() error { return unix.Fsync(fd) }) }
func sysSyncfs(fd int) error { return uninterrupted(func() error { return unix.Syncfs(fd) }) }
