package local_test

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// A COMMIT of written data makes a sync or finds a changed verifier, even while the sweeper drops
// idle files.
func TestSweeperLosesNoUnsyncedWrite(t *testing.T) {
	const files, rounds, writers = 1000, 30, 3
	dir := places(t)["tmpfs"] // a tmpfs, because syncs of it cost nothing
	if dir == nil {
		t.Skip("tmpfs cannot be mounted here")
	}
	root := dir(t)
	var syncs [files]atomic.Int64
	numbers := map[uint64]int{} // number of each file, by inode number
	for i := range files {
		name := fmt.Sprint(root, "/", i)
		if err := os.WriteFile(name, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		var st unix.Stat_t
		if err := unix.Stat(name, &st); err != nil {
			t.Fatal(err)
		}
		numbers[st.Ino] = i
	}
	w := newWorld(t, local.Config{Root: root, Descriptors: local.NewDescriptors(10 * files), SyncHook: func(_ local.SyncCall, fd int) error {
		var st unix.Stat_t
		if unix.Fstat(fd, &st) == nil {
			syncs[numbers[st.Ino]].Add(1)
		}
		return nil
	}})
	var all [files]vfs.Handle
	for i := range all {
		f, err := w.lookup(w.fs.Root(), fmt.Sprint(i))
		w.ok(err, "Lookup")
		all[i] = f
	}
	verifier := w.fs.Verifier()
	for round := range rounds {
		var before [files]int64
		w.fs.PassTime()
		var wg sync.WaitGroup
		wg.Go(func() { w.fs.Sweep(1) })
		for first := range writers {
			wg.Go(func() {
				for k := first; k < files; k += writers {
					i := (k*7 + round*13) % files
					before[i] = syncs[i].Load()
					if err := w.write(all[i], "x"); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		for i := range all {
			_, err := w.fs.Commit(w.op, all[i], 0, 0)
			w.ok(err, "Commit")
			if syncs[i].Load() == before[i] && w.fs.Verifier() == verifier {
				t.Fatalf("round %d: COMMIT of file %d was answered without a sync, and the verifier is the same", round, i)
			}
		}
	}
}

// If the cache drops a file with unsynced data, the verifier changes, because a later COMMIT would
// find nothing to do. If the file was removed, the verifier stays, because no client can commit
// the data any more.
func TestFileLetGoWithUnsyncedDataChangesTheVerifier(t *testing.T) {
	w := newWorld(t, local.Config{})
	f := w.create(w.fs.Root(), "f")
	w.ok(w.write(f, "x"), "Write")
	before := w.fs.Verifier()
	w.fs.Lose(f)
	after := w.fs.Verifier()
	if after == before {
		t.Error("data that is to be synced is forgotten, and the verifier is the same")
	}
	w.ok(w.write(f, "x"), "Write")
	w.remove(w.fs.Root(), "f")
	if w.fs.Verifier() != after {
		t.Error("the removal of a file with data that is to be synced changed the verifier")
	}
}
