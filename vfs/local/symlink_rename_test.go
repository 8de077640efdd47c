package local_test

import (
	"os"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// A rename of a symlink over its target replaces the target. The removal of a symlink
// leaves its target unchanged.
func TestSymlinkIsNotItsTarget(t *testing.T) {
	w := newWorld(t, local.Config{Root: t.TempDir()})
	root := w.fs.Root()
	f, kept := w.create(root, "f"), w.create(root, "kept")
	for link, to := range map[string]string{"l": "f", "m": "kept"} {
		w.ok(os.Symlink(to, w.path(link)))
	}
	from, _, err := w.fs.Rename(w.op, root, []byte("l"), root, []byte("f"))
	w.ok(err, "Rename")
	if from.Before == from.After {
		t.Error("the directory has the same Change after a symlink took a file's place")
	}
	if _, err := w.attr(f); err == nil {
		t.Error("the file is there still")
	}
	if h, err := w.lookup(root, "f"); err != nil || h == f {
		t.Errorf("%v, %v: the name leads to the file that is gone", h, err)
	} else if a, err := w.attr(h); err != nil || a.Type != vfs.Symlink {
		t.Errorf("%v, %v: not the symlink", a.Type, err)
	}
	w.remove(root, "m")
	if _, err := w.attr(kept); err != nil {
		t.Errorf("the target of a symlink that was removed: %v", err)
	}
}
