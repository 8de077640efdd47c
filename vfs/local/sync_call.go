package local

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// SyncCall names a call that makes something durable.
type SyncCall uint8

// Calls that make something durable.
const (
	Fsync  SyncCall = iota + 1 // a file with its attributes, or a directory
	Syncfs                     // the whole file system
)

// String names the call.
func (c SyncCall) String() string { return [...]string{"?", "fsync", "syncfs", "?"}[c&3] }

// A SyncError is the outcome of a sync that failed. The kernel tells each failure once and
// holds the data for clean from then on, so that it is lost.
type SyncError struct {
	Call SyncCall
	File vfs.Handle // zero where Call is Syncfs
	// The changes of the file, in the order of their numbers, that were not stable when the
	// sync ended: those behind number After, up to UpTo.
	After, UpTo uint64
	Err         error // what the file system said
}

// Error implements error.
func (e *SyncError) Error() string {
	return fmt.Sprintf("%v of %v: changes %d to %d are not on stable storage: %v", e.Call, e.File, e.After+1, e.UpTo, e.Err)
}

// Unwrap is the error to answer: a lack of space by its name, and any other as EIO. Others,
// such as EAGAIN, would say that nothing was done.
func (e *SyncError) Unwrap() error {
	for _, lack := range [...]syscall.Errno{syscall.ENOSPC, syscall.EDQUOT} {
		if errors.Is(e.Err, lack) {
			return lack
		}
	}
	return syscall.EIO
}

// sync makes the one call. The error is what the file system said.
func (fs *FS) sync(what SyncCall, fd int) error {
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
		err = fs.opens()
	}
	if err != nil {
		fs.stats.syncFailures.Add(1)
		fs.device.failures.Add(1)
		if fs.cfg.SyncFailed != nil {
			fs.cfg.SyncFailed(what, err)
		}
	}
	return err
}

// opens fails if the file system has lost its log: XFS opens nothing then.
func (fs *FS) opens() error {
	fd, err := sysOpenat(fs.mount, []byte("."), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

// syncNode syncs n, whose durability is d, through the descriptor that it was written by,
// which alone is sure to hear of what went wrong. A file or directory that has been removed
// needs no sync. Where n is nil, or has no descriptor that could be had, everything is synced.
func (fs *FS) syncNode(n *node, d *durability) (SyncCall, error) {
	if n != nil {
		f, err := fs.file(&daemonOp, n, n.files.writable())
		if err == nil {
			defer f.put()
			return Fsync, fs.syncAndConfirm(Fsync, f.fd, d, n, f.fd)
		}
		var st unix.Stat_t
		if fs.kind.links && fstat(n.fd, &st) == nil && st.Nlink == 0 {
			return Fsync, nil
		}
	}
	return Syncfs, fs.syncAndConfirm(Syncfs, fs.mount, d, fs.root, fs.mount)
}

func (o *openFiles) writable() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.rw != nil
}

// daemonOp is for what the daemon does on its own account.
var daemonOp = vfs.Op{Cred: func() *vfs.Cred { c := Identity(); return &c }()}
