package local

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// syncAndConfirm makes a sync for an inode with durability d. If any sync of the file system
// failed since the last verified sync of d, it verifies the result.
//
// If a file system cannot write its log, a sync may succeed wrongly: ext4 reports the failure only
// to calls that wait for the log, and tells later calls that there is nothing to do; XFS does not
// report it to a sync of a directory. To verify, syncAndConfirm changes an inode and syncs it: it
// sets the atime of n to the value that it already has. opened is a descriptor of n. If the log
// cannot be written, the change or the sync fails. If only the data of one file could not be
// stored, both succeed.
func (fs *FS) syncAndConfirm(call SyncCall, fd int, d *durability, n *node, opened int) error {
	if err := fs.sync(call, fd); err != nil {
		return err
	}
	failures := fs.device.failures.Load()
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

// touchAtime sets the atime of the file open on fd to its present value, so that the next sync has
// to write the inode.
func touchAtime(fd int) error {
	var st unix.Stat_t
	if err := fstat(fd, &st); err != nil {
		return err
	}
	return sysUtimens(fd, &[2]unix.Timespec{st.Atim, {Nsec: unix.UTIME_OMIT}})
}
