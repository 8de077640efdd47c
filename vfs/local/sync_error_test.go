package local_test

import (
	"errors"
	"os"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// Only callers that use the file get the error of its failed sync. Another client's MKDIR in
// another directory succeeds, although it waits for the disk at the same time. The error is ENOSPC
// or EDQUOT for a lack of space, and EIO otherwise.
func TestFailedSyncIsItsOwnCallers(t *testing.T) {
	root := t.TempDir()
	var st unix.Stat_t
	for _, name := range []string{"bad", "good"} {
		if err := os.WriteFile(root+"/"+name, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Stat(root+"/bad", &st); err != nil {
		t.Fatal(err)
	}
	bad := st.Ino
	var said atomic.Pointer[error]
	w := newWorld(t, local.Config{Root: root, Sync: true, SyncHook: func(_ local.SyncCall, fd int) error {
		var st unix.Stat_t
		if unix.Fstat(fd, &st) == nil && st.Ino == bad {
			return *said.Load()
		}
		return nil
	}})
	f, err := w.lookup(w.fs.Root(), "bad")
	w.ok(err, "Lookup")
	for told, want := range map[error]error{
		syscall.ENOSPC: syscall.ENOSPC, syscall.EDQUOT: syscall.EDQUOT,
		syscall.EAGAIN: syscall.EIO, errors.New("the disk is gone"): syscall.EIO,
	} {
		said.Store(&told)
		_, _, _, err := w.fs.Write(w.op, f, 0, [][]byte{[]byte("x")}, vfs.FileSync)
		w.want(err, want, "Write")
		var outcome *local.SyncError
		if !errors.As(err, &outcome) || outcome.File != f || outcome.Err != told || outcome.UpTo <= outcome.After {
			t.Errorf("the outcome is %v", err)
		}
	}
	attr := mode(0o600)
	failed := make(chan error, 1)
	go func() { _, err := w.fs.SetAttr(w.op, f, &attr, nil); failed <- err }()
	_, _, err = w.fs.Mkdir(w.op, w.fs.Root(), []byte("innocent"), &attr)
	w.ok(err, "Mkdir beside a sync that fails")
	if err := <-failed; err == nil {
		t.Error("SETATTR of the file that cannot be synced succeeded")
	}
}

// If a name is made while a sync of the directory runs and that sync fails, the call that made the
// name fails, too.
func TestNameMadeWhileTheDirectorysSyncFails(t *testing.T) {
	s := newSyncs()
	w := newWorld(t, local.Config{Sync: true, SyncHook: s.hook})
	root := w.fs.Root()
	a, err := w.attr(root)
	w.ok(err, "GetAttr")
	s.only.Store(a.FileID)
	gate := make(chan struct{})
	s.gate.Store(&gate)
	attr := mode(0o700)
	told := make(chan error, 2)
	mkdir := func(name string) {
		_, _, err := w.fs.Mkdir(w.op, root, []byte(name), &attr)
		told <- err
	}
	go mkdir("first")
	<-s.ahead
	go mkdir("second")
	await.Until(t, "the second MKDIR waits", func() bool { return w.fs.Syncing(root, 1) })
	s.fail.Store(true)
	close(gate)
	w.want(<-told, syscall.EIO, "a MKDIR whose sync failed")
	w.want(<-told, syscall.EIO, "a MKDIR whose sync failed")
}

// A repeated exclusive create succeeds without free space, because the first one may have taken
// the last of it.
func TestExclusiveCreateAgainWithoutRoom(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "nr_inodes=3"); err != nil {
		t.Skip("tmpfs cannot be mounted here: ", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	w := newWorld(t, local.Config{Root: dir})
	how := &vfs.CreateHow{Mode: vfs.Exclusive, Verifier: [8]byte{1, 2, 3, 4, 5, 6, 7, 8}}
	o, _, err := w.fs.Create(w.op, w.fs.Root(), []byte("x"), how)
	w.ok(err, "Create")
	for i := 0; os.WriteFile(w.path(string(rune('a'+i))), nil, 0o600) == nil; i++ {
	}
	again, _, err := w.fs.Create(w.op, w.fs.Root(), []byte("x"), how)
	w.ok(err, "the same Create again")
	if again.Handle != o.Handle {
		t.Error("it made another file")
	}
	_, _, err = w.fs.Create(w.op, w.fs.Root(), []byte("x"), &vfs.CreateHow{Mode: vfs.Exclusive, Verifier: [8]byte{9}})
	w.want(err, syscall.EEXIST, "Create with another verifier")
}
