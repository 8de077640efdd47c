package index_test

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest/stalled"
)

// If a hundred clients ask for files that are gone, one goroutine searches for them. At most eight
// calls wait for the search; all other calls get ErrDelay at once, and calls for files that exist
// get an answer. A file that the search did not find is stale for a minute, without another
// search.
func TestOneSearchAtATime(t *testing.T) {
	w := newWorld(t)
	w.x.Patience = 10 * await.Limit // the waiting calls give up only after this test
	now := time.Now()
	w.x.SetClock(func() time.Time { return now })
	f := w.create("there")
	gone := w.lost(100)
	begins, held := make(chan struct{}, 1), make(chan struct{})
	goOn := sync.OnceFunc(func() { close(held) })
	defer goOn()
	w.x.OnSearch(func() {
		select {
		case begins <- struct{}{}:
		default:
		}
		<-held
	})
	answers := make(chan error, 200)
	ask := func(h vfs.Handle) { answers <- w.open(h) }

	go ask(gone[0])
	await.Receive(t, "a search begins", begins)
	for _, h := range gone[1:] {
		go ask(h)
	}
	const waiters = 8
	for range len(gone) - waiters {
		w.want(await.Receive(t, "the calls that do not wait are answered", answers), vfs.ErrDelay, "Open while a search runs")
	}
	w.ok(w.open(f), "Open of a file that is there")
	select {
	case err := <-answers:
		t.Errorf("a call that waits was answered: %v", err)
	default:
	}
	goOn()
	stale := 0
	for range waiters {
		// Only the file that the search looked for from its beginning is stale.
		switch err := await.Receive(t, "those that wait are answered", answers); {
		case errors.Is(err, syscall.ESTALE):
			stale++
		default:
			w.want(err, vfs.ErrDelay, "Open of a file that was asked for too late")
		}
	}
	if stale != 1 {
		t.Errorf("%d of those that waited are stale", stale)
	}

	// The next search looks for all other files.
	for _, h := range gone {
		w.want(w.ask(h), syscall.ESTALE, "Open of a file that is gone")
	}
	if n, _ := w.x.Stats(); n != 2 {
		t.Errorf("%d searches for %d files", n, len(gone))
	}
	now = now.Add(59 * time.Second)
	for _, h := range gone {
		w.want(w.open(h), syscall.ESTALE, "Open of a file that was not found a short time ago")
	}
	if n, _ := w.x.Stats(); n != 2 {
		t.Errorf("%d searches: files that were just not found are searched for again", n)
	}
	now = now.Add(2 * time.Second)
	w.want(w.ask(gone[0]), syscall.ESTALE, "Open, later")
	if n, _ := w.x.Stats(); n != 3 {
		t.Errorf("%d searches: a file is to be looked for again after a minute", n)
	}
}

// Searches take at most a tenth of the time. Between two searches, a call for a missing file gets
// ErrDelay at once, and the next search looks for the file.
func TestSearchesShareTheTime(t *testing.T) {
	w := newWorld(t)
	w.x.Patience = await.Limit
	var passed atomic.Int64
	began := time.Now()
	w.x.SetClock(func() time.Time { return began.Add(time.Duration(passed.Load())) })
	w.mkdir("from")
	moved := w.create("f", "from")
	w.mkdir("to")
	gone := w.lost(2)
	w.x.OnSearch(func() { passed.Add(int64(time.Hour)) }) // each search takes an hour
	w.want(w.ask(gone[0]), syscall.ESTALE, "Open of a file that is gone")
	w.ok(os.Rename(w.path("from", "f"), w.path("to", "g")))
	passed.Add(int64(9*time.Hour - await.Limit - time.Second))
	for _, h := range []vfs.Handle{moved, gone[1]} {
		w.want(w.open(h), vfs.ErrDelay, "Open before the next search")
	}
	if n, _ := w.x.Stats(); n != 1 {
		t.Errorf("%d searches", n)
	}
	passed.Add(int64(await.Limit + time.Second))
	w.ok(w.ask(moved), "Open of a file that was moved")
	w.want(w.ask(gone[1]), syscall.ESTALE, "Open of a file that is gone")
	if n, _ := w.x.Stats(); n != 2 {
		t.Errorf("%d searches", n)
	}
}

// If a waiting call's file is found, the call returns without waiting for the end of the search.
func TestCallOfAFoundFileDoesNotAwaitTheSearch(t *testing.T) {
	w := newWorld(t)
	w.x.Patience = await.Limit
	w.mkdir("from")
	moved := w.create("f", "from")
	w.ok(os.Rename(w.path("from", "f"), w.path("f")))
	begins, goOn := make(chan struct{}), make(chan struct{})
	w.x.OnSearch(func() { close(begins); <-goOn })
	defer close(goOn)
	answer := async(func() error { return w.open(moved) })
	await.Receive(t, "a search begins", begins)
	w.note("f") // as if a client had looked the name up
	w.ok(await.Receive(t, "the call is answered", answer), "Open")
}

// If a search runs out of descriptors, the files that it did not find do not count as stale,
// because it has not read every directory.
func TestSearchWithoutDescriptors(t *testing.T) {
	if !stalled.Alone(t, 2) { // the test changes the limit of the whole process
		return
	}
	w := newWorld(t)
	w.x.Patience = await.Limit
	w.mkdir("from")
	f := w.create("f", "from")
	w.mkdir("to")
	w.ok(os.Rename(w.path("from", "f"), w.path("to", "f")))
	var was unix.Rlimit
	w.ok(unix.Getrlimit(unix.RLIMIT_NOFILE, &was))
	w.x.OnSearch(func() { unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: was.Max}) })
	err := w.open(f)
	unix.Setrlimit(unix.RLIMIT_NOFILE, &was)
	if err == nil || errors.Is(err, syscall.ESTALE) {
		t.Errorf("Open without descriptors: %v", err)
	}
	w.x.OnSearch(func() {})
	w.ok(w.ask(f), "Open with descriptors")
}
