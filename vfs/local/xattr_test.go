package local_test

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// Whether there are extended attributes is known from the start, and the methods agree: whatever the
// caller's rights, and for every type of file.
func TestFileSystemWithoutXattrs(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("local-test", dir, "ramfs", 0, ""); err != nil {
		t.Skipf("mount of a ramfs: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	w := newWorld(t, local.Config{Root: dir})
	if w.fs.KeepsXattrs() {
		t.Fatal("ramfs has extended attributes")
	}
	file := w.create(w.fs.Root(), "f")
	o, _, err := w.fs.Symlink(w.op, w.fs.Root(), []byte("link"), []byte("f"), &vfs.SetAttr{})
	w.ok(err, "Symlink")
	w.ok(unix.Chmod(w.path("f"), 0), "chmod")
	stranger := &vfs.Op{Cred: &vfs.Cred{UID: 12345, GID: 12345}}
	name := []byte("name")
	for what, h := range map[string]vfs.Handle{"a file": file, "a directory": w.fs.Root(), "a symlink": o.Handle} {
		for who, op := range map[string]*vfs.Op{"the daemon's user": w.op, "a stranger": stranger} {
			_, got := w.fs.GetXattr(op, h, name, make([]byte, 100))
			_, listed := w.fs.ListXattrs(op, h, make([]byte, 100))
			_, set := w.fs.SetXattr(op, h, name, name, vfs.XattrEither)
			_, removed := w.fs.RemoveXattr(op, h, name)
			for method, err := range map[string]error{"GetXattr": got, "ListXattrs": listed, "SetXattr": set, "RemoveXattr": removed} {
				if err != vfs.ErrNotSupported {
					t.Errorf("%s of %s by %s: %v, want %v", method, what, who, err, vfs.ErrNotSupported)
				}
			}
		}
	}
}
