package server

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
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

// Files of the state directory: lockFile is locked by the daemon that uses it, keyFile holds the key that seals
// handles.
const (
	lockFile = "lock"
	keyFile  = "handle.key"
)

// patience is how long a start waits for a command that looks at the state directory or copies it. Tests change it.
var patience = 2 * time.Second

func openState(path string) (*stateDir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("state directory %s cannot be made: %w; name one that this user can write with --state-dir", path, config.Cause(err))
	}
	if err := checkStateDir(path, os.Geteuid()); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(path, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
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

// checkStateDir rejects a directory in which users other than the daemon's may replace files. It does not repair
// the permissions, because other users may already have replaced files.
func checkStateDir(path string, daemon int) error {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return fmt.Errorf("state directory %s cannot be looked at: %w", path, err)
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return fmt.Errorf("state directory %s is not a directory: name another with --state-dir", path)
	case !ownOrRoots(st.Uid, daemon):
		return fmt.Errorf("state directory %s belongs to user %d, who may replace what is in it: chown it to user %d, or name another with --state-dir", path, st.Uid, daemon)
	case st.Mode&0o022 != 0:
		return fmt.Errorf("state directory %s has mode %04o, and others may replace what is in it: chmod go-w %s, or name a directory beneath it with --state-dir, which is made with mode 0700", path, st.Mode&0o7777, path)
	}
	return nil
}

// ownOrRoots reports whether a file's owner is the user of the daemon, or root. Root can read and
// replace every file anyway.
func ownOrRoots(uid uint32, daemon int) bool { return uid == 0 || int(uid) == daemon }

func (s *stateDir) close() { s.lock.Close() }

// handleKey returns the secret that seals file handles. The first start makes it, and stores it
// durably before its first use, because handles sealed with it must stay valid after a crash.
func (s *stateDir) handleKey() (key [export.KeySize]byte, err error) {
	file := filepath.Join(s.path, keyFile)
	f, err := os.OpenFile(file, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err = rand.Read(key[:]); err != nil {
			return key, err
		}
		return key, durable.Write(file, key[:])
	case errors.Is(err, unix.ELOOP):
		return key, fmt.Errorf("%s is a symbolic link: put the key itself there, with mode 0600", file)
	case err != nil:
		return key, fmt.Errorf("%s cannot be read: %w", file, config.Cause(err))
	}
	defer f.Close()
	if err := checkKey(f, os.Geteuid()); err != nil {
		return key, err
	}
	info, err := f.Stat()
	if err == nil && info.Size() != int64(len(key)) {
		return key, fmt.Errorf("%s is damaged: %d bytes instead of %d; restore it from a backup, or remove it and have every client mount anew", file, info.Size(), len(key))
	}
	if err == nil {
		_, err = io.ReadFull(f, key[:])
	}
	if err != nil {
		return key, fmt.Errorf("%s cannot be read: %w", file, config.Cause(err))
	}
	return key, nil
}

// checkKey rejects a key that other users may have read or written. The daemon does not repair
// the permissions, because the key would still not be secret; the administrator has to decide.
func checkKey(f *os.File, daemon int) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return fmt.Errorf("%s cannot be looked at: %w", f.Name(), err)
	}
	const remedy = "if nobody else can have read it, %s; else remove it, and have every client mount anew"
	switch mode := st.Mode & 0o7777; {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return fmt.Errorf("%s is not a regular file: remove it, and have every client mount anew", f.Name())
	case !ownOrRoots(st.Uid, daemon):
		return fmt.Errorf("%s belongs to user %d: "+remedy, f.Name(), st.Uid, fmt.Sprintf("chown %d %s", daemon, f.Name()))
	case mode != 0o600 && mode != 0o400:
		return fmt.Errorf("%s has mode %04o, and others may have used it: "+remedy, f.Name(), mode, "chmod 0600 "+f.Name())
	}
	return nil
}
