package local_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// PathOf follows names that clients and other programs change, tells of an open file that its name was removed, and
// says nothing of a file that it would have to look for.
func TestPathOf(t *testing.T) {
	w := newWorld(t, local.Config{})
	is := func(when string, h vfs.Handle, want string) {
		t.Helper()
		if got := w.fs.PathOf(h); got != want {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
	}
	dir := w.mkdir(w.fs.Root(), "dir")
	f := w.create(dir, "f")
	is("the root", w.fs.Root(), w.path("."))
	is("a file", f, w.path("dir", "f"))
	w.open(f, vfs.OpenRead)
	if err := os.Rename(w.path("dir"), w.path("moved")); err != nil {
		t.Fatal(err)
	}
	is("a file in a directory that was renamed", f, w.path("moved", "f"))
	if err := os.Remove(w.path("moved", "f")); err != nil {
		t.Fatal(err)
	}
	is("an open file that was removed", f, w.path("moved", "f")+" (deleted)")
	other := w.create(w.fs.Root(), "other")
	w.fs.EvictAll()
	is("a file that is not open", other, "")
	is("no file", vfs.Handle{}, "")
	if err := w.fs.Close(); err != nil {
		t.Fatal(err)
	}
	is("a closed file system", f, "")
}

// HandleAt finds a file by any path, and none of another file system.
func TestHandleAt(t *testing.T) {
	w := newWorld(t, local.Config{})
	f := w.create(w.mkdir(w.fs.Root(), "dir"), "f")
	w.fs.EvictAll()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(w.path("dir"), link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{w.path("dir", "f"), filepath.Join(link, "f"), w.path("dir") + "/../dir/f"} {
		if h, ok, err := w.fs.HandleAt(path); h != f || !ok || err != nil {
			t.Errorf("%s: %v, %v, %v", path, h, ok, err)
		}
	}
	if h, ok, err := w.fs.HandleAt("/proc/self/status"); ok || err != nil {
		t.Errorf("a file of another file system: %v, %v", h, err)
	}
	if _, ok, err := w.fs.HandleAt(w.path("none")); ok || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}
