package main

import (
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// loopback shows a directory by go-fuse, until it is unmounted.
func loopback(backing, at string) error {
	root, err := fs.NewLoopbackRoot(backing)
	if err != nil {
		return err
	}
	second := time.Second
	s, err := fs.Mount(at, root, &fs.Options{
		AttrTimeout: &second, EntryTimeout: &second,
		MountOptions: fuse.MountOptions{AllowOther: true, FsName: backing, Name: "loopback"},
	})
	if err != nil {
		return err
	}
	s.Wait()
	return nil
}
