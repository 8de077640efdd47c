package local_test

import (
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

func (w *world) setTime(h vfs.Handle, sec int64) error {
	_, err := w.fs.SetAttr(w.op, h, &vfs.SetAttr{MtimeHow: vfs.ClientTime, Mtime: vfs.Time{Sec: sec}}, nil)
	return err
}

func (w *world) symlink(name string) vfs.Handle {
	w.Helper()
	o, _, err := w.fs.Symlink(w.op, w.fs.Root(), []byte(name), []byte("text"), &vfs.SetAttr{})
	w.ok(err, "Symlink")
	return o.Handle
}

// If the write-back of a local program's file fails, a SETATTR of a symlink succeeds, and the verifier
// stays. The symlink cannot be synced alone.
func TestSymlinkDoesNotGetAnotherFilesError(t *testing.T) {
	d := newFailingDisk(t)
	w := newWorld(t, local.Config{Root: d.dir, Sync: true})
	link := w.symlink("link")
	verifier := w.fs.Verifier()
	d.fail()
	fd, err := unix.Open(d.f, unix.O_RDWR, 0)
	w.ok(err, "open")
	defer unix.Close(fd)
	_, err = unix.Pwrite(fd, []byte("local"), 0)
	w.ok(err, "write of another program")
	if unix.Fsync(fd) == nil {
		t.Skip("the disk did not fail")
	}
	w.ok(w.setTime(link, 1e9), "SetAttr of a symlink")
	if w.fs.Verifier() != verifier {
		t.Error("the verifier changed for another program's file")
	}
}

// Without a log, a SETATTR of a symlink syncs the whole file system. The first error may be that of
// another file; only if the sync fails again, the SETATTR does.
func TestSyncOfAllFailsOnlyIfItFailsAgain(t *testing.T) {
	var failures atomic.Int32
	w := newWorld(t, local.Config{Root: newDisk(t, diskKinds["no journal"]...).dir, Sync: true, SyncHook: func(what local.SyncCall, _ int) error {
		if what == local.Syncfs && failures.Add(-1) >= 0 {
			return syscall.ENOSPC
		}
		return nil
	}})
	link := w.symlink("link")
	verifier := w.fs.Verifier()
	failures.Store(1)
	w.ok(w.setTime(link, 1e9), "SetAttr beside an error of another file")
	if w.fs.Verifier() != verifier {
		t.Error("the verifier changed for another file")
	}
	failures.Store(2)
	w.want(w.setTime(link, 2e9), syscall.ENOSPC, "SetAttr that cannot be made durable")
	if w.fs.Verifier() == verifier {
		t.Error("the verifier is the same after a sync of the file system that failed")
	}
}
