package local_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest/stalled"
)

// lost are handles of n files that others have removed.
func lost(w *world, n int) (hs []vfs.Handle) {
	w.Helper()
	d := w.mkdir(w.fs.Root(), "lost")
	for i := range n {
		hs = append(hs, w.create(d, fmt.Sprint("f", i)))
	}
	w.ok(os.RemoveAll(w.path("lost")))
	w.fs.EvictAll()
	return hs
}

// ask asks for a file's attributes as a client does: again, while it is told to
// ask later.
func (w *world) ask(h vfs.Handle) (err error) {
	w.Helper()
	await.Until(w.T, "the search ends", func() bool {
		_, err = w.attr(h)
		return !errors.Is(err, vfs.ErrDelay)
	})
	return err
}

// A hundred clients ask for files that are gone. One goroutine searches for them:
// no more than eight calls wait for it, the others are answered while it is at
// work, and so are calls about files that are there. What was not found is stale
// without another search, for a minute.
func TestOneSearchAtATime(t *testing.T) {
	w := newWorld(t, local.Config{IndexHandles: true})
	w.fs.SearchPatience(10 * await.Limit) // those that wait give up long after this test
	now := time.Now()
	w.fs.SetClock(func() time.Time { return now })
	f := w.create(w.fs.Root(), "there")
	gone := lost(w, 100)
	begins, held := make(chan struct{}, 1), make(chan struct{})
	goOn := sync.OnceFunc(func() { close(held) })
	defer goOn()
	w.fs.OnSearch(func() {
		select {
		case begins <- struct{}{}:
		default:
		}
		<-held
	})
	answers := make(chan error, 200)
	ask := func(h vfs.Handle) { _, err := w.attr(h); answers <- err }

	go ask(gone[0])
	await.Receive(t, "a search begins", begins)
	for _, h := range gone[1:] {
		go ask(h)
	}
	const waiters = 8
	for range len(gone) - waiters {
		w.want(await.Receive(t, "the calls that do not wait are answered", answers), vfs.ErrDelay, "GetAttr while a search runs")
	}
	_, err := w.attr(f)
	w.ok(err, "GetAttr of a file that is there")
	_, err = w.fs.ReadDir(w.op, w.fs.Root(), 0, true, new(vfs.Attr), func(*vfs.DirEntry) bool { return true })
	w.ok(err, "ReadDir")
	select {
	case err := <-answers:
		t.Errorf("a call that waits was answered: %v", err)
	default:
	}
	goOn()
	stale := 0
	for range waiters {
		// Stale is only what the search has looked for from its beginning.
		switch err := await.Receive(t, "those that wait are answered", answers); {
		case errors.Is(err, syscall.ESTALE):
			stale++
		default:
			w.want(err, vfs.ErrDelay, "GetAttr of what was asked for too late")
		}
	}
	if stale != 1 {
		t.Errorf("%d of those that waited are stale", stale)
	}

	// All the others are looked for by the next one.
	for _, h := range gone {
		w.want(w.ask(h), syscall.ESTALE, "GetAttr of a file that is gone")
	}
	if n := w.fs.Stats().Searches; n != 2 {
		t.Errorf("%d searches for %d files", n, len(gone))
	}
	now = now.Add(59 * time.Second)
	for _, h := range gone {
		_, err := w.attr(h)
		w.want(err, syscall.ESTALE, "GetAttr of what was not found a short time ago")
	}
	if n := w.fs.Stats().Searches; n != 2 {
		t.Errorf("%d searches: those for what was just not found are too many", n)
	}
	now = now.Add(2 * time.Second)
	w.want(w.ask(gone[0]), syscall.ESTALE, "GetAttr, later")
	if n := w.fs.Stats().Searches; n != 3 {
		t.Errorf("%d searches: what was not found is to be looked for again after a minute", n)
	}
}

// Searches have a tenth of the time. What is asked for in between is answered at
// once, and looked for later: it is not stale.
func TestSearchesShareTheTime(t *testing.T) {
	w := newWorld(t, local.Config{IndexHandles: true})
	w.fs.SearchPatience(await.Limit)
	var passed atomic.Int64
	began := time.Now()
	w.fs.SetClock(func() time.Time { return began.Add(time.Duration(passed.Load())) })
	moved := w.create(w.mkdir(w.fs.Root(), "from"), "f")
	w.mkdir(w.fs.Root(), "to")
	gone := lost(w, 2)
	w.fs.OnSearch(func() { passed.Add(int64(time.Hour)) }) // so long does each take
	w.want(w.ask(gone[0]), syscall.ESTALE, "GetAttr of a file that is gone")
	w.ok(os.Rename(w.path("from", "f"), w.path("to", "g")))
	passed.Add(int64(9*time.Hour - await.Limit - time.Second))
	for _, h := range []vfs.Handle{moved, gone[1]} {
		_, err := w.attr(h)
		w.want(err, vfs.ErrDelay, "GetAttr before the next search")
	}
	if n := w.fs.Stats().Searches; n != 1 {
		t.Errorf("%d searches", n)
	}
	passed.Add(int64(await.Limit + time.Second))
	w.ok(w.ask(moved), "GetAttr of what was moved")
	w.want(w.ask(gone[1]), syscall.ESTALE, "GetAttr of a file that is gone")
	if n := w.fs.Stats().Searches; n != 2 {
		t.Errorf("%d searches", n)
	}
}

// A call whose file was met does not wait for the end of the search.
func TestSearchAnswersWhatIsMet(t *testing.T) {
	w := newWorld(t, local.Config{IndexHandles: true})
	w.fs.SearchPatience(await.Limit)
	moved := w.create(w.mkdir(w.fs.Root(), "from"), "f")
	w.ok(os.Rename(w.path("from", "f"), w.path("f")))
	w.fs.EvictAll()
	begins, goOn := make(chan struct{}), make(chan struct{})
	w.fs.OnSearch(func() { close(begins); <-goOn })
	defer close(goOn)
	answer := async(func() error { _, err := w.attr(moved); return err })
	await.Receive(t, "a search begins", begins)
	// A client meets it, as the search would: by looking at it.
	_, err := w.lookup(w.fs.Root(), "f")
	w.ok(err, "Lookup")
	w.ok(await.Receive(t, "the call is answered", answer), "GetAttr")
}

// A search without descriptors has not looked everywhere: what it did not meet is
// not stale.
func TestSearchWithoutDescriptors(t *testing.T) {
	if !stalled.Alone(t, 2) { // the limit is the process's
		return
	}
	w := newWorld(t, local.Config{IndexHandles: true})
	w.fs.SearchPatience(await.Limit)
	f := w.create(w.mkdir(w.fs.Root(), "from"), "f")
	w.mkdir(w.fs.Root(), "to")
	w.ok(os.Rename(w.path("from", "f"), w.path("to", "f")))
	w.fs.EvictAll()
	var was unix.Rlimit
	w.ok(unix.Getrlimit(unix.RLIMIT_NOFILE, &was))
	w.fs.OnSearch(func() { unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: was.Max}) })
	_, err := w.attr(f)
	unix.Setrlimit(unix.RLIMIT_NOFILE, &was)
	if err == nil || errors.Is(err, syscall.ESTALE) {
		t.Errorf("GetAttr without descriptors: %v", err)
	}
	w.fs.OnSearch(func() {})
	w.ok(w.ask(f), "GetAttr with descriptors")
}

// An index that cannot write for long forgets what it learns beyond a bound, and
// nothing waits for it but calls that may, of what they list.
func TestIndexThatCannotWrite(t *testing.T) {
	w := newWorld(t, local.Config{IndexHandles: true})
	d := w.mkdir(w.fs.Root(), "d")
	f := w.create(d, "f")
	w.create(d, "g")
	try := func(name string) error {
		_, err := w.fs.Lookup(&vfs.Op{Cred: w.op.Cred, Try: true}, d, []byte(name), new(vfs.Attr))
		return err
	}
	_, err := w.lookup(d, "f")
	w.ok(err, "Lookup")
	w.ok(try("f"), "an attempt of LOOKUP")
	attempt := func() error { return try("g") } // a name that is remembered needs no index
	goOn := w.fs.HoldIndex()
	defer goOn()
	n := 0
	await.Receive(t, "the index has no room", async(func() error {
		for w.fs.IndexHasRoom() {
			w.fs.Note(n)
			n++
		}
		return nil
	}))
	if n != 1<<16 {
		t.Errorf("%d names are pending", n)
	}
	w.want(await.Receive(t, "an attempt is answered", async(attempt)), vfs.ErrWouldBlock, "an attempt of LOOKUP")
	w.ok(await.Receive(t, "a call is answered", async(func() error {
		_, err := w.lookup(d, "f")
		return err
	})), "Lookup")
	await.Receive(t, "names are noted without waiting", async(func() error {
		for i := range 2 * n { // twice as many as there is room for may be pending
			w.fs.Note(n + i)
		}
		return nil
	}))
	forgotten := w.fs.Stats().Forgotten
	if forgotten == 0 {
		t.Error("what is learnt has no bound")
	}
	w.ok(os.WriteFile(w.path("d", "other"), nil, 0o644))
	listed := async(func() error {
		_, err := w.fs.ReadDir(w.op, d, 0, true, new(vfs.Attr), func(*vfs.DirEntry) bool { return true })
		return err
	})
	goOn()
	w.ok(await.Receive(t, "READDIRPLUS is answered", listed), "ReadDir")
	if n := w.fs.Stats().Forgotten; n != forgotten {
		t.Errorf("%d names of what READDIRPLUS listed are forgotten: it waits for room", n-forgotten)
	}
	w.fs.EvictAll()
	w.ok(w.ask(f), "GetAttr")
}

func async(f func() error) chan error {
	c := make(chan error, 1)
	go func() { c <- f() }()
	return c
}

// The index knows the places that it was told of and nothing else, the latest
// first, whatever of them is on disk, being written or pending, and after a
// restart.
func TestIndexAgainstAModel(t *testing.T) {
	root, state := t.TempDir(), t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		fs, err := local.New(local.Config{Root: root, StateDir: state, IndexHandles: true})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { fs.Close() }()
		const files, names = 3, 4 // fewer names than a file may have
		model := map[int][]string{}
		for i := range files { // what the run before left
			fs.NoteGone(i, "", true)
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			i := rapid.IntRange(0, files-1).Draw(t, "file")
			name := fmt.Sprint("n", rapid.IntRange(0, names-1).Draw(t, "name"))
			without := slices.DeleteFunc(slices.Clone(model[i]), func(s string) bool { return s == name })
			switch rapid.SampledFrom([]string{"seen", "seen", "gone", "last", "flush", "restart"}).Draw(t, "step") {
			case "seen":
				fs.NoteName(i, name)
				model[i] = append([]string{name}, without...)
			case "gone":
				fs.NoteGone(i, name, false)
				model[i] = without
			case "last":
				fs.NoteGone(i, name, true)
				model[i] = nil
			case "flush":
				fs.FlushIndex()
			case "restart":
				if err := fs.Close(); err != nil {
					t.Fatal(err)
				}
				if fs, err = local.New(local.Config{Root: root, StateDir: state, IndexHandles: true}); err != nil {
					t.Fatal(err)
				}
			}
			for i := range files {
				if got := fs.PlacesOf(i); !slices.Equal(got, model[i]) {
					t.Fatalf("file %d has the places %q, not %q", i, got, model[i])
				}
			}
		}
	})
}
