package local_test

import (
	"os"
	"sync"
	"syscall"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// twoExports opens one export of a directory and one of a directory beneath it, and makes a file
// that both show. inUpper and inLower are the file's handles.
func twoExports(t *testing.T) (s *syncs, upper, lower *world, inUpper, inLower vfs.Handle) {
	s = newSyncs()
	upper = newWorld(t, local.Config{SyncHook: s.hook})
	d := upper.mkdir(upper.fs.Root(), "d")
	inUpper = upper.create(d, "f")
	lower = newWorld(t, local.Config{Root: upper.path("d"), SyncHook: s.hook})
	inLower, err := lower.lookup(lower.fs.Root(), "f")
	lower.ok(err, "Lookup")
	return s, upper, lower, inUpper, inLower
}

func (w *world) commit(f vfs.Handle) error {
	_, err := w.fs.Commit(w.op, f, 0, 0)
	return err
}

// A COMMIT through one export also covers data that was written through the other one.
func TestCommitThroughAnotherExport(t *testing.T) {
	s, upper, lower, inUpper, inLower := twoExports(t)
	upper.ok(upper.write(inUpper, "x"), "Write")
	lower.ok(lower.commit(inLower), "Commit through the other export")
	if s.total() == 0 {
		t.Error("COMMIT made no sync of what was written through another export")
	}
	before := s.total()
	upper.ok(upper.commit(inUpper), "Commit")
	if n := s.total() - before; n != 0 {
		t.Errorf("%d syncs of what another export's COMMIT has synced", n)
	}
	if n := upper.fs.Unsynced(); n != 0 {
		t.Errorf("%d files count as not synced", n)
	}
}

// Callers through two exports share a sync call.
func TestCommitsThroughTwoExportsShareACall(t *testing.T) {
	s, upper, lower, inUpper, inLower := twoExports(t)
	upper.ok(upper.write(inUpper, "x"), "Write")
	gate := make(chan struct{})
	s.gate.Store(&gate)
	var all sync.WaitGroup
	all.Go(func() { upper.ok(upper.commit(inUpper), "Commit") })
	<-s.ahead
	all.Go(func() { lower.ok(lower.commit(inLower), "Commit through the other export") })
	await.Until(t, "the other COMMIT waits", func() bool { return lower.fs.Syncing(inLower, 1) })
	close(gate)
	all.Wait()
	if n := s.total(); n != 1 {
		t.Errorf("%d syncs, want one", n)
	}
}

// If a sync through one export loses data, the verifier of the other export changes as well, and a
// WRITE through the other export that waits for the sync gets the error.
func TestLossIsToldThroughAllExports(t *testing.T) {
	s, upper, lower, inUpper, inLower := twoExports(t)
	upper.ok(upper.write(inUpper, "x"), "Write")
	before := upper.fs.Verifier()
	gate := make(chan struct{})
	s.gate.Store(&gate)
	committed, written := make(chan error, 1), make(chan error, 1)
	go func() { committed <- lower.commit(inLower) }()
	<-s.ahead
	go func() {
		_, _, _, err := upper.fs.Write(upper.op, inUpper, 0, [][]byte{[]byte("y")}, vfs.FileSync)
		written <- err
	}()
	await.Until(t, "the WRITE waits", func() bool { return upper.fs.Syncing(inUpper, 1) })
	s.fail.Store(true)
	close(gate)
	lower.want(<-committed, syscall.EIO, "Commit")
	upper.want(<-written, syscall.EIO, "Write through the other export")
	if upper.fs.Verifier() == before {
		t.Error("data that was written through an export is lost, and its verifier is the same")
	}
}

// A copy within one file whose ranges overlap is refused, even if the two Files are of two exports.
func TestOverlappingCopyThroughTwoExports(t *testing.T) {
	_, upper, lower, inUpper, inLower := twoExports(t)
	upper.ok(upper.write(inUpper, "0123456789"), "Write")
	from, err := upper.fs.Open(upper.op, inUpper, vfs.OpenRead)
	upper.ok(err, "Open")
	defer from.Close()
	to, err := lower.fs.Open(lower.op, inLower, vfs.OpenWrite)
	lower.ok(err, "Open")
	defer to.Close()
	_, err = lower.fs.CopyRange(lower.op, from, 0, to, 3, 5)
	lower.want(err, syscall.EINVAL, "a copy of overlapping ranges")
	n, err := lower.fs.CopyRange(lower.op, from, 0, to, 5, 5)
	lower.ok(err, "a copy of ranges that do not overlap")
	if got, err := os.ReadFile(upper.path("d/f")); n != 5 || err != nil || string(got) != "0123401234" {
		t.Errorf("%d bytes copied, the file is %q, %v", n, got, err)
	}
}
