// Package durable writes files that outlive a crash.
package durable

import (
	"io"
	"os"
	"path/filepath"
)

// Write replaces the file with the given path. If the machine crashes during Write, the file has
// either the old content or the new one. After Write has returned without an error, the file has
// the new content, also after a crash.
func Write(file string, content []byte) error { return write(disk{}, file, content) }

// A system makes the system calls of Write. A test has one that fails.
type system interface {
	create(dir, pattern string) (handle, error)
	rename(from, to string) error
	remove(name string) error
	open(dir string) (handle, error)
}

// A handle is an open file or directory.
type handle interface {
	io.WriteCloser
	Name() string
	Sync() error
}

func write(s system, file string, content []byte) error {
	dir := filepath.Dir(file)
	f, err := s.create(dir, filepath.Base(file)+".new")
	if err != nil {
		return err
	}
	defer s.remove(f.Name())
	if _, err = f.Write(content); err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = s.rename(f.Name(), file)
	}
	if err != nil {
		return err
	}
	d, err := s.open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// disk makes the system calls.
type disk struct{}

func (disk) create(dir, pattern string) (handle, error) { return os.CreateTemp(dir, pattern) }
func (disk) rename(from, to string) error               { return os.Rename(from, to) }
func (disk) remove(name string) error                   { return os.Remove(name) }
func (disk) open(dir string) (handle, error)            { return os.Open(dir) }
