package local

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// SyncCall is a system call that makes something durable.
type SyncCall uint8

// The values of SyncCall, and what each makes durable.
const (
	Fsync  SyncCall = iota + 1 // a file with its attributes, or a directory
	Syncfs                     // the whole file system
)

// String names the call.
func (c SyncCall) String() string { return [...]string{"?", "fsync", "syncfs", "?"}[c&3] }

// A SyncError describes a failed sync. The kernel reports each failure once and regards the data
// as clean afterwards; so the data is lost.
type SyncError struct {
	Call SyncCall
	File vfs.Handle // zero if the changed object cannot be synced alone, such as a symlink
	// The file's changes are numbered. Those with the numbers After+1 to UpTo were not stable when
	// the sync ended.
	After, UpTo uint64
	Err         error // the file system's error
}

// Error implements error.
func (e *SyncError) Error() string {
	return fmt.Sprintf("%v of %v: changes %d to %d are not on stable storage: %v", e.Call, e.File, e.After+1, e.UpTo, e.Err)
}

// Unwrap returns the error for clients: ENOSPC or EDQUOT if Err is one of these, otherwise EIO. To
// clients, other errors such as EAGAIN would mean that nothing was written.
func (e *SyncError) Unwrap() error {
	for _, lack := range [...]syscall.Errno{syscall.ENOSPC, syscall.EDQUOT} {
		if errors.Is(e.Err, lack) {
			return lack
		}
	}
	return syscall.EIO
}

// A syncCaller makes the sync calls of one FS, counts them, and reports those that fail. It knows what a
// sync means on the kind of file system.
type syncCaller struct {
	mount  int // a descriptor of the file system
	kind   *fsKind
	device *device
	hook   func(what SyncCall, fd int) error // Config.SyncHook
	report func(what SyncCall, err error)    // Config.SyncFailed

	calls, failures atomic.Uint64
}

// call makes one sync call on fd and returns its error, after it has counted and reported it.
func (s *syncCaller) call(what SyncCall, fd int) error {
	err := s.try(what, fd)
	if err != nil {
		s.failures.Add(1)
		s.device.failures.Add(1)
		if s.report != nil {
			s.report(what, err)
		}
	}
	return err
}

// try makes one sync call on fd and returns its error. On a file system that can lose its log
// (losesLog), it also returns an error if the log is lost.
func (s *syncCaller) try(what SyncCall, fd int) error {
	s.calls.Add(1)
	var err error
	if s.hook != nil {
		err = s.hook(what, fd)
	}
	switch {
	case err != nil:
	case what == Fsync:
		err = sysFsync(fd)
	default:
		err = sysSyncfs(fd)
	}
	if err == nil && s.kind.losesLog {
		var st unix.Stat_t
		err = sysFstat(s.mount, &st) // XFS answers every stat with EIO when it has lost its log
	}
	return err
}

// all makes durable all changes of names and attributes so far of objects that cannot be synced alone,
// such as symlinks. Their durability is d; root is the inode of the directory that mount is open on.
//
// A file system with a log commits its changes in order. There all makes an unnamed file and syncs
// it, because a sync of its own inode commits all changes before. Without a log it syncs the whole file
// system, which can take seconds beside programs that write.
func (s *syncCaller) all(d *durability, root *inode) (SyncCall, error) {
	if s.kind.logged {
		fd, err := sysOpenat2(s.mount, dot, unix.O_TMPFILE|unix.O_RDWR, 0o600, 0)
		if err == nil {
			defer unix.Close(fd)
			return Fsync, s.call(Fsync, fd)
		}
	}
	// Syncfs also returns errors of files that were written before. Those belong to the callers that
	// sync these files. The kernel reports them once, so the second call fails only if the file system does.
	if s.try(Syncfs, s.mount) == nil {
		return Syncfs, s.confirm(d, root, s.mount)
	}
	return Syncfs, s.callAndConfirm(Syncfs, s.mount, d, root)
}

// callAndConfirm makes a sync call on fd for the changes that d counts, and confirms it. The file of fd
// has the inode i.
func (s *syncCaller) callAndConfirm(what SyncCall, fd int, d *durability, i *inode) error {
	if err := s.call(what, fd); err != nil {
		return err
	}
	return s.confirm(d, i, fd)
}

// confirm is called after a sync call on fd that succeeded; see callAndConfirm for the arguments. If any
// sync of the file system failed since the last verified sync of d, confirm verifies the result.
//
// If a file system cannot write its log, a sync may succeed wrongly: ext4 reports the failure only
// to calls that wait for the log, and XFS does not report it to a sync of a directory. To verify,
// confirm sets the file's atime to its present value and syncs that change. That fails if the log
// cannot be written, but not if only the data of one file was lost.
func (s *syncCaller) confirm(d *durability, i *inode, fd int) error {
	failures := s.device.failures.Load()
	if d.confirmed == failures {
		return nil
	}
	i.version.before()
	err := touchAtime(fd)
	i.version.after(err == nil, nil)
	switch err {
	case nil:
		err = s.call(Fsync, fd)
	case syscall.EPERM, syscall.EACCES:
		err = nil // the file belongs to another user, and the daemon may not change it
	}
	if err == nil {
		d.confirmed = failures
	}
	return err
}

// touchAtime sets the file's atime to its present value, so that the next sync has to write the inode.
func touchAtime(fd int) error {
	var st unix.Stat_t
	if err := sysFstat(fd, &st); err != nil {
		return err
	}
	return utimens(fd, &[2]unix.Timespec{st.Atim, {Nsec: unix.UTIME_OMIT}})
}
