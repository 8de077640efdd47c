package local_test

import (
	"os"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// After a failed sync, the FS verifies the next successful sync of each file once, by a change and
// a second sync, because a file system that cannot write its log may report success wrongly. If
// the second sync fails, the call fails, and the verifier changes.
func TestSyncBehindAFailedOneIsConfirmed(t *testing.T) {
	root := t.TempDir()
	inode := make(map[string]uint64)
	for _, name := range []string{"bad", "good", "lost"} {
		if err := os.WriteFile(root+"/"+name, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		var st unix.Stat_t
		if err := unix.Stat(root+"/"+name, &st); err != nil {
			t.Fatal(err)
		}
		inode[name] = st.Ino
	}
	var good, lost atomic.Int32
	var logIsGone atomic.Bool
	w := newWorld(t, local.Config{Root: root, Sync: true, SyncHook: func(_ local.SyncCall, fd int) error {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return err
		}
		switch st.Ino {
		case inode["bad"]:
			return syscall.EIO
		case inode["good"]:
			good.Add(1)
		case inode["lost"]:
			if lost.Add(1) > 1 && logIsGone.Load() {
				return syscall.EROFS
			}
		}
		return nil
	}})
	files := make(map[string]vfs.Handle)
	for name := range inode {
		h, err := w.lookup(w.fs.Root(), name)
		w.ok(err, "Lookup")
		files[name] = h
	}
	write := func(name string) error {
		_, _, _, err := w.fs.Write(w.op, files[name], 0, [][]byte{[]byte("x")}, vfs.FileSync)
		return err
	}
	before, err := w.attr(files["good"])
	w.ok(err, "GetAttr")
	w.ok(write("good"), "Write")
	if n := good.Load(); n != 1 {
		t.Errorf("%d syncs for a WRITE where none has failed, want one", n)
	}
	w.want(write("bad"), syscall.EIO, "Write")
	w.ok(write("good"), "Write behind a sync that failed")
	w.ok(write("good"), "another Write")
	if n := good.Load(); n != 1+2+1 {
		t.Errorf("%d syncs for three WRITEs, want one, two behind the failure, and one", n)
	}
	after, err := w.attr(files["good"])
	w.ok(err, "GetAttr")
	if after.Atime != before.Atime || after.Change <= before.Change {
		t.Errorf("the atime is %v, was %v; the Change %d, was %d", after.Atime, before.Atime, after.Change, before.Change)
	}
	logIsGone.Store(true)
	verifier := w.fs.Verifier()
	w.want(write("lost"), syscall.EIO, "Write where the log is gone")
	if w.fs.Verifier() == verifier {
		t.Error("the verifier is the same after data was lost")
	}
}

// If XFS cannot write its log, no CREATE succeeds from then on. The kernel reports the failure
// only to calls that wait for the log at that time; to a later sync of a directory it reports
// success.
func TestCreateIsNotAnsweredWhenTheLogOfXFSIsLost(t *testing.T) {
	d := newXFS(t)
	defer unix.Unmount(d.dir, unix.MNT_DETACH)
	w := newWorld(t, local.Config{Root: d.dir, Sync: true, SyncHook: func(_ local.SyncCall, fd int) error {
		const goingDown, withoutLog = 0x8004587d, 2 // XFS_IOC_GOINGDOWN
		if err := unix.IoctlSetPointerInt(fd, goingDown, withoutLog); err != nil {
			return err
		}
		_ = unix.Fsync(fd) // stands for a sync by another program, or the kernel's own write of the log
		return nil
	}})
	_, _, err := w.fs.Create(w.op, w.fs.Root(), []byte("f"), &vfs.CreateHow{})
	w.want(err, syscall.EIO, "Create")
}
