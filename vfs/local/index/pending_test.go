package index_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/vfs/local/index"
)

// If the index cannot write, it drops the names beyond a limit. Only Room waits, and only for
// calls that may block.
func TestIndexThatCannotWrite(t *testing.T) {
	w := newWorld(t)
	f := w.create("f")
	goOn := w.x.Hold(noFile(1 << 40))
	defer goOn()
	note := func(i int) { w.x.Note(w.root, noFile(i), []byte(fmt.Sprint(i))) }
	n := 0
	await.Receive(t, "the index has no room", async(func() error {
		for ; w.x.Room(true); n++ {
			note(n)
		}
		return nil
	}))
	if n != 1<<16 {
		t.Errorf("%d names are pending", n)
	}
	w.ok(await.Receive(t, "a call is answered", async(func() error { return w.open(f) })), "Open")
	await.Receive(t, "names are noted without waiting", async(func() error {
		for i := range 2 * n { // together with n, more than the limit of 2*maxPending
			note(n + i)
		}
		return nil
	}))
	if _, forgotten := w.x.Stats(); forgotten == 0 {
		t.Error("the pending names have no bound")
	}
	room := make(chan bool, 1)
	go func() { room <- w.x.Room(false) }()
	select {
	case <-room:
		t.Error("Room does not wait while nothing is written")
	default:
	}
	goOn()
	if !await.Receive(t, "there is room again", room) {
		t.Error("Room returned, and there is none")
	}
	w.ok(w.ask(f), "Open")
}

// The index returns exactly the places that Note reported and Gone did not remove, the latest
// first, whether they are on disk, being written or pending, and also after a restart.
func TestIndexAgainstAModel(t *testing.T) {
	w, state := newWorld(t), t.TempDir()
	open := func() *index.Index {
		x, err := index.Open(directory(w.dir), state, w.root)
		w.ok(err)
		return x
	}
	rapid.Check(t, func(t *rapid.T) {
		x := open()
		defer func() { x.Close() }()
		const files, names = 3, 4 // fewer names than a file may have
		model := map[int][]string{}
		for i := range files { // the previous run may have left places
			x.Gone(w.root, noFile(i), nil, true)
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			i := rapid.IntRange(0, files-1).Draw(t, "file")
			name := fmt.Sprint("n", rapid.IntRange(0, names-1).Draw(t, "name"))
			without := slices.DeleteFunc(slices.Clone(model[i]), func(s string) bool { return s == name })
			switch rapid.SampledFrom([]string{"seen", "seen", "gone", "last", "flush", "restart"}).Draw(t, "step") {
			case "seen":
				x.Note(w.root, noFile(i), []byte(name))
				model[i] = append([]string{name}, without...)
			case "gone":
				x.Gone(w.root, noFile(i), []byte(name), false)
				model[i] = without
			case "last":
				x.Gone(w.root, noFile(i), []byte(name), true)
				model[i] = nil
			case "flush":
				x.Flush()
			case "restart":
				w.ok(x.Close())
				x = open()
			}
			for i := range files {
				if got := x.NamesOf(noFile(i)); !slices.Equal(got, model[i]) {
					t.Fatalf("file %d has the places %q, not %q", i, got, model[i])
				}
			}
		}
	})
}
