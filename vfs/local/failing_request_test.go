package local_test

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest/stalled"
)

// A file system in user space, or on a network, answers EINTR if a signal interrupts a call, as those of
// the Go runtime do. Every method repeats such a system call. The test interrupts each request that the
// kernel makes to the file system during a call: the first one, then the second one, and so on.
func TestInterruptedCallsAreRepeated(t *testing.T) {
	m := stalled.Mount(t)
	for _, index := range []bool{false, true} {
		w := newWorld(t, local.Config{Root: m.Dir, Sync: true, IndexHandles: index})
		for _, warm := range []bool{true, false} {
			if index && warm {
				continue // with warm caches the index is not used
			}
			for _, c := range calls {
				interrupted := 0
				for interruptAt(w, m, c, warm, interrupted) {
					interrupted++
				}
				if interrupted == 0 {
					t.Errorf("%s asked the file system nothing", c.method)
				}
			}
		}
		w.ok(w.fs.Close(), "Close")
	}
}

// interruptAt makes a call whose request to the file system after the given number is answered with EINTR.
// It reports whether the call made so many.
func interruptAt(w *world, m *stalled.FileSystem, c call, warm bool, after int) bool {
	w.Helper()
	x := fixtureAt(w, warm)
	if ofFiles[c.method] {
		x.open()
	}
	m.FailAfter(after, syscall.EINTR)
	err := c.make(x, w.op)
	failed := m.Failed()
	// The kernel may have made the file in the interrupted openat2. Nothing tells it from another's then.
	made := strings.HasPrefix(c.method, "Create") && errors.Is(err, syscall.EEXIST)
	if err != nil && !made {
		w.Errorf("%s, interrupted at request %d, in the caches: %v, by %s: %v", c.method, after, warm, w.fs.Scheme(), err)
	}
	x.close()
	return failed
}

// If a search for a file that another program has moved cannot read a directory for a moment, the file's
// handle is not stale.
func TestSearchThatFailsForAMoment(t *testing.T) {
	m := stalled.Mount(t)
	w := newWorld(t, local.Config{Root: m.Dir, IndexHandles: true})
	from, _ := w.mkdir(w.fs.Root(), "from"), w.mkdir(w.fs.Root(), "to")
	f := w.create(from, "f")
	places := []string{w.path("from", "f"), w.path("to", "f")}
	for after := 0; ; after++ {
		w.ok(os.Rename(places[after%2], places[1-after%2]))
		w.fs.EvictAll()
		w.fs.SearchAgain()
		m.FailAfter(after, syscall.ENOMEM)
		await.Until(t, "the file is found", func() bool {
			_, err := w.attr(f)
			if errors.Is(err, syscall.ESTALE) {
				t.Fatalf("the handle is stale after request %d of the search has failed", after)
			}
			if err != nil && !errors.Is(err, vfs.ErrDelay) && !errors.Is(err, syscall.ENOMEM) {
				t.Fatal(err)
			}
			if err != nil {
				w.fs.SearchAgain()
			}
			return err == nil
		})
		if !m.Failed() {
			if after < 5 {
				t.Errorf("the search makes only %d requests", after)
			}
			return
		}
	}
}
