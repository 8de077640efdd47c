package statedir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
)

// User returns the user for whose daemon a directory is checked. Root also checks for the daemon of the service, which runs
// as a user of its own: then it is the owner of the directory.
func User(dir string) int {
	var st unix.Stat_t
	if me := os.Geteuid(); me != 0 || unix.Stat(dir, &st) != nil {
		return me
	}
	return int(st.Uid)
}

// CheckDir rejects a directory in which users other than the daemon's may replace files. It does not repair
// the permissions, because other users may already have replaced files.
func CheckDir(path string, daemon int) error {
	var st unix.Stat_t
	of := "state directory " + path
	if err := unix.Stat(path, &st); err != nil {
		return fmt.Errorf("%s cannot be looked at: %w", of, err)
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return &fault{of, "is not a directory", "name another with --state-dir"}
	case !ownOrRoots(st.Uid, daemon):
		return &fault{of, fmt.Sprintf("belongs to user %d, who may replace what is in it", st.Uid), fmt.Sprintf("chown it to user %d, or name another with --state-dir", daemon)}
	case st.Mode&0o022 != 0:
		return &fault{of, fmt.Sprintf("has mode %04o, and others may replace what is in it", st.Mode&0o7777),
			"chmod go-w " + path + ", or name a directory beneath it with --state-dir, which is made with mode 0700"}
	}
	return nil
}

// ownOrRoots reports whether a file's owner is the user of the daemon, or root. Root can read and
// replace every file anyway.
func ownOrRoots(uid uint32, daemon int) bool { return uid == 0 || int(uid) == daemon }

// ReadKey returns the key of a directory that signs file handles. It rejects a key that other users may have read or
// written. The error is fs.ErrNotExist if there is none.
func ReadKey(dir string, daemon int) (key [export.KeySize]byte, err error) {
	file := filepath.Join(dir, Key)
	f, err := os.OpenFile(file, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, unix.ELOOP):
		return key, &fault{file, "is a symbolic link", "put the key itself there, with mode 0600"}
	case err != nil:
		return key, unreadable(file, err)
	}
	defer f.Close()
	if err := checkKey(f, daemon); err != nil {
		return key, err
	}
	if _, err = io.ReadFull(f, key[:]); err != nil {
		return key, unreadable(file, err)
	}
	return key, nil
}

func unreadable(file string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fmt.Errorf("%s cannot be read: %w", file, config.Cause(err))
}

// checkKey does not repair the permissions, because the key would still not be secret; the administrator has to decide.
func checkKey(f *os.File, daemon int) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return fmt.Errorf("%s cannot be looked at: %w", f.Name(), err)
	}
	const remedy = "if nobody else can have read it, %s; else remove it, and have every client mount anew"
	switch mode := st.Mode & 0o7777; {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return &fault{f.Name(), "is not a regular file", "remove it, and have every client mount anew"}
	case !ownOrRoots(st.Uid, daemon):
		return &fault{f.Name(), fmt.Sprintf("belongs to user %d", st.Uid), fmt.Sprintf(remedy, fmt.Sprintf("chown %d %s", daemon, f.Name()))}
	case mode != 0o600 && mode != 0o400:
		return &fault{f.Name(), fmt.Sprintf("has mode %04o, and others may have used it", mode), fmt.Sprintf(remedy, "chmod 0600 "+f.Name())}
	case st.Size != export.KeySize:
		return &fault{f.Name(), fmt.Sprintf("is damaged: %d bytes instead of %d", st.Size, export.KeySize), "restore it from a backup, or remove it and have every client mount anew"}
	}
	return nil
}
