package local_test

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// listed returns the entries of READDIRPLUS for the directory dir, by name.
func (w *world) listed(dir vfs.Handle) map[string]vfs.DirEntry {
	w.Helper()
	all := map[string]vfs.DirEntry{}
	var a vfs.Attr
	_, err := w.fs.ReadDir(w.op, dir, 0, true, &a, func(e *vfs.DirEntry) bool {
		all[string(e.Name)] = *e
		return true
	})
	w.ok(err, "ReadDir")
	return all
}

// A listing that takes long lets other goroutines use its processor before it ends.
func TestLongListingYields(t *testing.T) {
	w := newWorld(t, local.Config{})
	for i := range 64 {
		w.create(w.fs.Root(), fmt.Sprint(i))
	}
	var ran atomic.Bool
	var a vfs.Attr
	begun, seen := false, false
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	_, err := w.fs.ReadDir(w.op, w.fs.Root(), 0, true, &a, func(*vfs.DirEntry) bool {
		if !begun {
			begun = true
			go ran.Store(true)
			w.fs.Later(time.Second)
		}
		seen = ran.Load()
		return true
	})
	w.ok(err, "ReadDir")
	if !seen {
		t.Error("a listing of 64 entries and a second has ended before a goroutine that began at the first of them")
	}
}

// The next listing shows each change by a local program, whatever the FS remembers of the
// directory, and whether or not the files in it have nodes.
func TestListingsShowChangesByLocalPrograms(t *testing.T) {
	for name, forget := range map[string]func(*local.FS){
		"files held open": func(*local.FS) {},
		"files let go":    (*local.FS).EvictAll,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, local.Config{})
			d := w.mkdir(w.fs.Root(), "d")
			for i := range 20 {
				w.create(d, fmt.Sprint("f", i))
			}
			w.mkdir(d, "sub")
			for what, change := range map[string]func() error{
				"nothing":         func() error { return nil },
				"a file's size":   func() error { return os.Truncate(w.path("d", "f1"), 12345) },
				"a file's mode":   func() error { return os.Chmod(w.path("d", "f2"), 0o600) },
				"a link":          func() error { return os.Link(w.path("d", "f3"), w.path("other")) },
				"a rename":        func() error { return os.Rename(w.path("d", "f4"), w.path("d", "new")) },
				"a rename over":   func() error { return os.Rename(w.path("d", "f5"), w.path("d", "f6")) },
				"two that change": func() error { return swap(w.path("d", "f7"), w.path("d", "f8")) },
				"a removal":       func() error { return os.Remove(w.path("d", "f9")) },
				"a directory": func() error {
					if err := os.Remove(w.path("d", "sub")); err != nil {
						return err
					}
					return os.WriteFile(w.path("d", "sub"), []byte("a file"), 0o644)
				},
			} {
				w.later()
				w.listed(d)
				forget(w.fs)
				w.listed(d)
				w.ok(change(), what)
				got := w.listed(d)
				want := map[string]bool{".": true, "..": true}
				entries, err := os.ReadDir(w.path("d"))
				w.ok(err)
				for _, e := range entries {
					want[e.Name()] = true
					h, err := w.lookup(d, e.Name())
					w.ok(err, "Lookup ", e.Name())
					var a vfs.Attr
					w.ok(w.fs.GetAttr(w.op, h, &a), "GetAttr ", e.Name())
					if is := got[e.Name()]; is.Handle != h || !is.HasAttr || is.Attr != a || is.FileID != a.FileID {
						t.Errorf("%s: %s is listed as\n%+v\nand is\n%+v", what, e.Name(), is, a)
					}
				}
				for name := range got {
					if !want[name] {
						t.Errorf("%s: %s is listed and is not there", what, name)
					}
				}
			}
		})
	}
}

// The FS sees names that a local program makes and removes directly after a listing and a lookup,
// although on tmpfs the directory's ctime may stay the same.
func TestNamesOfOthersAreSeenAtOnce(t *testing.T) {
	for place, dir := range places(t) {
		t.Run(place, func(t *testing.T) {
			w := newWorld(t, local.Config{Root: dir(t)})
			d := w.mkdir(w.fs.Root(), "d")
			is := func(want ...string) {
				t.Helper()
				names := w.listed(d)
				if len(names) != len(want)+2 {
					t.Fatalf("%d entries, want %q, . and ..", len(names), want)
				}
				for _, name := range want {
					if _, there := names[name]; !there {
						t.Fatalf("%q is not listed", name)
					}
				}
				for _, name := range []string{"n", "link"} {
					_, err := w.lookup(d, name)
					if want := slices.Contains(want, name); want != (err == nil) {
						t.Fatalf("Lookup of %q: %v", name, err)
					}
				}
			}
			for range 100 {
				w.ok(os.WriteFile(w.path("d/n"), nil, 0o644))
				is("n")
				w.ok(os.Link(w.path("d/n"), w.path("d/link")))
				is("n", "link")
				w.ok(os.Remove(w.path("d/n")))
				is("link")
				w.ok(os.Remove(w.path("d/link")))
				is()
			}
		})
	}
}

// Listings from memory equal those of the kernel, for directories of any size, in one call and in
// pages.
func TestRememberedListingsAreTheKernels(t *testing.T) {
	w := newWorld(t, local.Config{})
	w.fs.SetClock(func() time.Time { return time.Time{} }) // so that no ctime counts as old
	d := w.mkdir(w.fs.Root(), "d")
	for i := range 700 {
		w.create(d, fmt.Sprint("a longer name of a file ", i))
	}
	pages := func(size int, plus bool) (all []string) {
		var cookie uint64
		for eof := false; !eof; {
			n := 0
			var err error
			var a vfs.Attr
			eof, err = w.fs.ReadDir(w.op, d, cookie, plus, &a, func(e *vfs.DirEntry) bool {
				if n == size {
					return false
				}
				n++
				cookie = e.Cookie
				all = append(all, fmt.Sprint(string(e.Name), e.FileID, e.Cookie))
				return true
			})
			w.ok(err, "ReadDir")
		}
		return all
	}
	want := pages(1000, true)
	if len(want) != 702 || w.fs.RememberedNames() != 0 {
		t.Fatalf("%d entries, of which %d are remembered by a ctime that is young", len(want), w.fs.RememberedNames())
	}
	w.later()
	for _, size := range []int{1, 7, 300, 1000, 7} {
		for _, plus := range []bool{true, false} {
			if got := pages(size, plus); !slices.Equal(got, want) {
				t.Errorf("in pages of %d (plus %v): %d entries, want %d:\n%v\n%v", size, plus, len(got), len(want), got, want)
			}
		}
		if n := w.fs.RememberedNames(); n != 700 {
			t.Errorf("in pages of %d: %d entries are remembered, want 700", size, n)
		}
	}
	w.fs.EvictAll()
	if n := w.fs.RememberedNames(); n != 0 {
		t.Errorf("%d entries are remembered of a directory that was let go", n)
	}
}

// A name that a local program adds within a tick of the clock leaves the ctime. So the FS does not
// remember that a directory is empty while its ctime is young.
func TestYoungDirectoriesAreNotRememberedAsEmpty(t *testing.T) {
	for _, settled := range []bool{false, true} {
		if got := local.RemembersEmpty(settled); got != settled {
			t.Errorf("with a settled ctime (%v): an empty listing is remembered: %v", settled, got)
		}
	}
}

// swap exchanges the names of two files.
func swap(a, b string) error {
	for _, r := range [][2]string{{a, a + "~"}, {b, a}, {a + "~", b}} {
		if err := os.Rename(r[0], r[1]); err != nil {
			return err
		}
	}
	return nil
}
