package local_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// The names that all FSs remember together have one limit, in bytes. An FS whose directories have many
// names leaves memory to the others, and gives all back when it forgets the directories.
func TestRememberedNamesHaveOneLimit(t *testing.T) {
	memory := places(t)["tmpfs"]
	if memory == nil {
		t.Skip("tmpfs cannot be mounted here")
	}
	var all []*world
	for range 3 {
		w := newWorld(t, local.Config{Root: memory(t)})
		w.later()
		all = append(all, w)
	}
	greedy, other := all[0], all[1]
	for size := int64(1 << 20); size > 0; size /= 2 { // as many names would
		for greedy.fs.TakeNames(size) {
			t.Cleanup(func() { greedy.fs.TakeNames(-size) })
		}
	}
	if n := greedy.fs.NameMemory(); n > local.MaxNameMemory/2 {
		t.Errorf("one file system has %d bytes of %d", n, local.MaxNameMemory)
	}
	remember := func(w *world) int64 {
		for i := range 100 {
			w.create(w.fs.Root(), fmt.Sprint(strings.Repeat("long", 50), i))
		}
		var a vfs.Attr
		for i := range 100 {
			_, err := w.fs.Lookup(w.op, w.fs.Root(), fmt.Append(nil, strings.Repeat("long", 50), i), &a)
			w.ok(err, "Lookup")
		}
		return w.fs.RememberedNames()
	}
	if n := remember(greedy); n > 1 {
		t.Errorf("a file system without memory remembers %d names", n)
	}
	if n := remember(other); n != 100 {
		t.Errorf("another file system remembers %d names of 100", n)
	}
	if n := other.fs.NameMemory(); n < 100*200 {
		t.Errorf("100 names of 200 bytes are counted as %d bytes", n)
	}
	other.ok(other.fs.Close(), "Close")
	if n := other.fs.NameMemory(); n != 0 {
		t.Errorf("%d bytes are counted after Close", n)
	}
}
