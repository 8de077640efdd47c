package server

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/internal/durable"
	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/server/statedir"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
)

// A stateDir is the directory of the data that survives the process. One daemon at a time uses it.
type stateDir struct {
	path string
	lock *os.File
}

// patience is how long a start waits for a command that looks at the state directory or copies it. Tests change it.
var patience = 2 * time.Second

func openState(path string) (*stateDir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("state directory %s cannot be made: %w; name one that this user can write with --state-dir", path, config.Cause(err))
	}
	if err := statedir.CheckDir(path, os.Geteuid()); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(path, statedir.Lock), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("state directory %s cannot be written: %w; name another with --state-dir", path, config.Cause(err))
	}
	for until := time.Now().Add(patience); unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(until) {
			lock.Close()
			return nil, fmt.Errorf("state directory %s is in use by another nfsrdmad: stop it, or give this one a directory of its own with --state-dir", path)
		}
	}
	if err := claim(path); err != nil {
		lock.Close()
		return nil, err
	}
	return &stateDir{path, lock}, nil
}

// claim refuses a directory of a later version, and marks one of an earlier version before anything else is written in it:
// that version could misread the rest. A directory without a mark is used also if the mark cannot be written, on a full disk
// for example: list tries again, and its failure is logged.
func claim(path string) error {
	was, err := statedir.Format(path)
	if err != nil {
		return err
	}
	if err := statedir.Mark(path); err != nil && was > 0 {
		return fmt.Errorf("state directory %s is of an earlier format, and the present one cannot be written into it: %w; make room on the disk, or name another directory with --state-dir", path, config.Cause(err))
	}
	return nil
}

func (s *stateDir) close() { s.lock.Close() }

// handleKey returns the secret that seals file handles. The first start makes it, and stores it
// durably before its first use, because handles sealed with it must stay valid after a crash.
func (s *stateDir) handleKey() (key [export.KeySize]byte, err error) {
	key, err = statedir.ReadKey(s.path, os.Geteuid())
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if _, err = rand.Read(key[:]); err != nil {
		return key, err
	}
	return key, durable.Write(filepath.Join(s.path, statedir.Key), key[:])
}
