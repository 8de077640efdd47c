package server

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
)

// stateDir is the directory that outlives the process. One daemon at a time has
// it.
type stateDir struct {
	path string
	lock *os.File
}

func openState(path string) (*stateDir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("state directory %s cannot be made: %w; name one that this user can write with --state-dir", path, cause(err))
	}
	lock, err := os.OpenFile(filepath.Join(path, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("state directory %s cannot be written: %w; name another with --state-dir", path, cause(err))
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		return nil, fmt.Errorf("state directory %s is in use by another nfsrdmad: stop it, or give this one a directory of its own with --state-dir", path)
	}
	return &stateDir{path, lock}, nil
}

func (s *stateDir) close() { s.lock.Close() }

// handleKey is the secret that seals file handles. Made at the first start, on
// stable storage before it is used: handles sealed with it must be good after
// any crash.
func (s *stateDir) handleKey() (key [export.KeySize]byte, err error) {
	file := filepath.Join(s.path, "handle.key")
	b, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err = rand.Read(key[:]); err != nil {
			return key, err
		}
		return key, writeDurably(file, key[:])
	case err != nil:
		return key, fmt.Errorf("%s cannot be read: %w", file, cause(err))
	case len(b) != len(key):
		return key, fmt.Errorf("%s is damaged: %d bytes instead of %d; restore it from a backup, or remove it and have every client mount anew", file, len(b), len(key))
	}
	return [export.KeySize]byte(b), nil
}

// writeDurably writes a file so that it is there whole, or not at all, after a
// crash at any moment.
func writeDurably(file string, content []byte) error {
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
