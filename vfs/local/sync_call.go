package local

import (
	"errors"
	"fmt"
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

// sync makes one sync call on fd and returns its error, after it has counted and reported it.
func (fs *FS) sync(what SyncCall, fd int) error {
	err := fs.callSync(what, fd)
	if err != nil {
		fs.stats.syncFailures.Add(1)
		fs.syncer.device.failures.Add(1)
		if fs.cfg.SyncFailed != nil {
			fs.cfg.SyncFailed(what, err)
		}
	}
	return err
}

// callSync makes one sync call on fd and returns its error. On a file system that can lose its log
// (losesLog), it also returns an error if the log is lost.
func (fs *FS) callSync(what SyncCall, fd int) error {
	fs.stats.syncs.Add(1)
	var err error
	if fs.cfg.SyncHook != nil {
		err = fs.cfg.SyncHook(what, fd)
	}
	switch {
	case err != nil:
	case what == Fsync:
		err = sysFsync(fd)
	default:
		err = sysSyncfs(fd)
	}
	if err == nil && fs.kind.losesLog {
		var st unix.Stat_t
		err = sysFstat(fs.mount, &st) // XFS answers every stat with EIO when it has lost its log
	}
	return err
}

// syncNode syncs n, whose durability is d, through the writable descriptor if it has one, because
// only the descriptor that wrote the data is sure to get the error of a failure. If n is nil or
// cannot be opened, syncNode calls syncAll. If n was removed, it syncs nothing.
func (fs *FS) syncNode(n *node, d *durability) (SyncCall, error) {
	if n != nil {
		f, err := n.held(true), error(nil)
		if f == nil {
			f, err = fs.file(&daemonOp, n, false)
		}
		if err == nil {
			defer f.put()
			return Fsync, fs.syncAndConfirm(Fsync, f.fd, d, n, f.fd)
		}
		var st unix.Stat_t
		if fs.kind.links && sysFstat(n.fd, &st) == nil && st.Nlink == 0 {
			return Fsync, nil
		}
	}
	return fs.syncAll(d)
}

// syncAll makes durable all changes of names and attributes so far of objects that cannot be synced
// alone, such as symlinks.
//
// A file system with a log commits its changes in order. There syncAll makes an unnamed file and syncs
// it, because a sync of its own inode commits all changes before. Without a log it syncs the whole file
// system, which can take seconds beside programs that write.
func (fs *FS) syncAll(d *durability) (SyncCall, error) {
	if fs.kind.logged {
		fd, err := sysOpenat2(fs.mount, dot, unix.O_TMPFILE|unix.O_RDWR, 0o600, 0)
		if err == nil {
			defer unix.Close(fd)
			return Fsync, fs.sync(Fsync, fd)
		}
	}
	// Syncfs also returns errors of files that were written before. Those belong to the callers that
	// sync these files. The kernel reports them once, so the second call fails only if the file system does.
	if fs.callSync(Syncfs, fs.mount) == nil {
		return Syncfs, fs.confirm(d, fs.root, fs.mount)
	}
	return Syncfs, fs.syncAndConfirm(Syncfs, fs.mount, d, fs.root, fs.mount)
}

// daemonOp is the Op of calls that the daemon makes on its own behalf.
var daemonOp = vfs.Op{Cred: func() *vfs.Cred { c := Identity(); return &c }()}

// syncAndConfirm makes a sync for an inode with durability d, and confirms it.
func (fs *FS) syncAndConfirm(call SyncCall, fd int, d *durability, n *node, opened int) error {
	if err := fs.sync(call, fd); err != nil {
		return err
	}
	return fs.confirm(d, n, opened)
}

// confirm is called after a sync for an inode with durability d that succeeded. If any sync of the file
// system failed since the last verified sync of d, it verifies the result.
//
// If a file system cannot write its log, a sync may succeed wrongly: ext4 reports the failure only
// to calls that wait for the log, and XFS does not report it to a sync of a directory. To verify,
// confirm sets the atime of n, which is open on opened, to its present value and syncs that
// change. That fails if the log cannot be written, but not if only the data of one file was lost.
func (fs *FS) confirm(d *durability, n *node, opened int) error {
	failures := fs.syncer.device.failures.Load()
	if d.confirmed == failures {
		return nil
	}
	n.inode.version.before()
	err := touchAtime(opened)
	n.inode.version.after(err == nil, nil)
	switch err {
	case nil:
		err = fs.sync(Fsync, opened)
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
