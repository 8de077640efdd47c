package local_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// failOnce returns a Config for root whose next sync fails once *fail is set. The kernel also reports a
// failure once to each descriptor.
func failOnce(root string, fail *atomic.Bool) local.Config {
	return local.Config{Root: root, Sync: true, SyncHook: func(local.SyncCall, int) error {
		if fail.CompareAndSwap(true, false) {
			return syscall.EIO
		}
		return nil
	}}
}

// losesForBoth writes one file through two FSs and commits it through the first one, which fails. The
// second one's verifier has to change, because the data written through it may be lost.
func losesForBoth(t *testing.T, a, b *world, fileA, fileB vfs.Handle, failA, failB *atomic.Bool) {
	t.Helper()
	if fileA != fileB {
		t.Fatalf("the file's handles are %v and %v", fileA, fileB)
	}
	verifiers := [2][8]byte{a.fs.Verifier(), b.fs.Verifier()}
	b.ok(b.write(fileB, "second"), "Write")
	a.ok(a.write(fileA, "first"), "Write")
	failA.Store(true)
	failB.Store(true)
	a.want(a.commit(fileA), syscall.EIO, "the Commit that fails")
	if a.fs.Verifier() == verifiers[0] {
		t.Error("the verifier of the FS whose Commit failed is the same")
	}
	if b.fs.Verifier() == verifiers[1] {
		t.Error("the verifier of the other FS is the same, and data written through it is lost")
	}
}

// Exports of a btrfs and of a subvolume in it are exports of one file system, although stat shows two
// device numbers.
func TestFailedSyncConcernsAllSubvolumes(t *testing.T) {
	d := newDiskOf(t, "btrfs")
	sub := filepath.Join(d.dir, "sub")
	if out, err := exec.Command("btrfs", "subvolume", "create", sub).CombinedOutput(); err != nil {
		t.Skipf("btrfs subvolume create: %v: %s", err, out)
	}
	if err := os.WriteFile(filepath.Join(sub, "f"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	unix.Sync()
	var failA, failB atomic.Bool
	a, b := newWorld(t, failOnce(d.dir, &failA)), newWorld(t, failOnce(sub, &failB))
	if a.fs.Lane() != b.fs.Lane() {
		t.Error("the exports have lanes of their own")
	}
	inA, err := a.lookup(a.fs.Root(), "sub")
	a.ok(err, "Lookup")
	fileA, err := a.lookup(inA, "f")
	a.ok(err, "Lookup")
	fileB, err := b.lookup(b.fs.Root(), "f")
	b.ok(err, "Lookup")
	losesForBoth(t, a, b, fileA, fileB, &failA, &failB)
}

// A failed sync changes the verifiers of all FSs through which the file was written, even if one of them
// is not known to be on the same file system.
func TestFailedSyncConcernsAllWriters(t *testing.T) {
	dir := t.TempDir()
	var failA, failB atomic.Bool
	a, b := newWorld(t, failOnce(dir, &failA)), newWorld(t, failOnce(dir, &failB))
	b.fs.Apart()
	fileA := a.create(a.fs.Root(), "f")
	fileB, err := b.lookup(b.fs.Root(), "f")
	b.ok(err, "Lookup")
	losesForBoth(t, a, b, fileA, fileB, &failA, &failB)
}
