package local

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// syncAndConfirm makes a sync for what has durability d, and makes sure of it if another sync
// of the file system failed since d's last one.
//
// If a file system cannot write its log, a sync may say that all is well where nothing is:
// ext4 tells the failure to the calls that wait for the log, and tells those that begin later
// that there is nothing to do; XFS tells no directory of it. So an inode is changed (n, which
// opened is open on, by its atime, which stays as it is) and synced. Where the log is gone, one
// of the two fails. Where the data of one file could not be stored, both succeed.
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
		err = nil // another user's file, and a daemon that may not change it
	}
	if err == nil {
		d.confirmed = failures
	}
	return err
}

// touchAtime sets the atime of the file that fd is open on to the value that it has.
func touchAtime(fd int) error {
	var st unix.Stat_t
	if err := fstat(fd, &st); err != nil {
		return err
	}
	return sysUtimens(fd, &[2]unix.Timespec{st.Atim, {Nsec: unix.UTIME_OMIT}})
}
