// Package durable writes files that outlive a crash.
package durable

import (
	"os"
	"path/filepath"
)

// Write replaces the file with the given path. If the machine crashes during Write, the file has
// either the old content or the new one. After Write has returned without an error, the file has
// the new content, also after a crash.
func Write(file string, content []byte) error {
	dir := filepath.Dir(file)
	f, err := os.CreateTemp(dir, filepath.Base(file)+".new")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if _, err = f.Write(content); err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
