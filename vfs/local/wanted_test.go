package local_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// MountedOn of the root of a mount is the inode number of the directory that the mount covers,
// also if that directory has an odd name. For any other directory it is the directory's own
// number.
func TestMountedOn(t *testing.T) {
	for _, name := range []string{"m", `odd \ name` + "\t\n#", `a\040b`} {
		dir := filepath.Join(t.TempDir(), name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		var below unix.Stat_t
		if err := unix.Stat(dir, &below); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("local-test", dir, "tmpfs", 0, ""); err != nil {
			t.Skip(err)
		}
		t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
		w := newWorld(t, local.Config{Root: dir})
		w.mkdir(w.fs.Root(), "sub")
		want := *w.op
		want.Want = vfs.WantMountedOn
		var a vfs.Attr
		attempt := want
		attempt.Try = true
		if err := w.fs.GetAttr(&attempt, w.fs.Root(), &a); err != vfs.ErrWouldBlock {
			t.Errorf("%q: an attempt that has to read the directory above came to %v, file %d on %d", name, err, a.FileID, a.MountedOn)
		}
		w.ok(w.fs.GetAttr(&want, w.fs.Root(), &a), "GetAttr")
		if a.MountedOn != below.Ino || a.FileID == below.Ino {
			t.Errorf("%q: file %d on %d, want on %d", name, a.FileID, a.MountedOn, below.Ino)
		}
		w.ok(w.fs.GetAttr(&attempt, w.fs.Root(), &a), "an attempt")
		if a.MountedOn != below.Ino {
			t.Errorf("%q: an attempt told %d, want %d", name, a.MountedOn, below.Ino)
		}
		w.ok(w.fs.GetAttr(w.op, w.fs.Root(), &a), "GetAttr")
		if a.MountedOn != 0 {
			t.Errorf("%q: on %d, which was not asked for", name, a.MountedOn)
		}
		// The root of an export further down is not the root of a mount.
		inner := newWorld(t, local.Config{Root: filepath.Join(dir, "sub")})
		w.ok(inner.fs.GetAttr(&want, inner.fs.Root(), &a), "GetAttr")
		if a.MountedOn != a.FileID {
			t.Errorf("%q: a directory has number %d, on %d", name, a.FileID, a.MountedOn)
		}
	}
}
