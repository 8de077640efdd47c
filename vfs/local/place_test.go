package local_test

import (
	"os"
	"syscall"
	"testing"
	"unique"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/internal/mountinfo"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// Place returns the path by which programs of this machine find the directory, also after another
// program has renamed it.
func TestPlace(t *testing.T) {
	w := newWorld(t, local.Config{Root: places(t)["tmp"](t)})
	dir := w.mkdir(w.fs.Root(), "dir")
	var sx unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, w.path("dir"), 0, unix.STATX_MNT_ID, &sx); err != nil {
		t.Fatal(err)
	}
	is := func(h vfs.Handle, want string) {
		t.Helper()
		mount, path, err := w.fs.Place(w.op, h)
		if err != nil || mount != sx.Mnt_id || path != want {
			t.Errorf("%q on %d, %v; want %q on %d", path, mount, err, want, sx.Mnt_id)
		}
	}
	is(w.fs.Root(), w.path("."))
	is(dir, w.path("dir"))
	if err := os.Rename(w.path("dir"), w.path("moved")); err != nil {
		t.Fatal(err)
	}
	is(dir, w.path("moved"))
	_, _, err := w.fs.Place(w.op, w.create(w.fs.Root(), "file"))
	w.want(err, syscall.ENOTDIR, "Place of a file")
}

// Exports of one directory have the same FSID if they have the same Config.FSID, and different
// ones otherwise.
func TestFSID(t *testing.T) {
	root := places(t)["tmp"](t)
	id := func(fsid uint64) uint64 {
		w := newWorld(t, local.Config{Root: root, FSID: fsid})
		a, err := w.attr(w.fs.Root())
		if err != nil {
			t.Fatal(err)
		}
		return a.FSID
	}
	own, one, two := id(0), id(1), id(2)
	if own == one || one == two || own == two || id(1) != one {
		t.Errorf("%x, %x, %x", own, one, two)
	}
}

// With Config.KernelHandles, New fails with an explanation if the file system has no kernel
// handles.
func TestKernelHandles(t *testing.T) {
	fs, err := local.New(local.Config{Root: "/proc/sys", KernelHandles: true, StateDir: t.TempDir()})
	if err == nil {
		fs.Close()
		t.Fatal("/proc is served by handles")
	}
	t.Log(err)
}

// An FS believes the caller that tells it the root's mount, and does not read mountinfo, which may have
// very many lines.
func TestMountThatTheCallerKnows(t *testing.T) {
	base := diskFolder(t)
	at := base + "/covered"
	if err := mkdirs(at); err != nil {
		t.Fatal(err)
	}
	var covered unix.Stat_t
	if err := unix.Stat(at, &covered); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("local-test", at, "tmpfs", 0, ""); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { unix.Unmount(at, unix.MNT_DETACH) })
	known := newWorld(t, local.Config{Root: at, Mount: mountinfo.Mount{ID: 1 << 62, Device: "77:78", Root: "/", Point: "/nowhere/covered"}})
	read := newWorld(t, local.Config{Root: at})
	if known.fs.Volume() != unique.Make("77:78") || read.fs.Volume() == known.fs.Volume() {
		t.Errorf("the volume is %v, and %v without the mount", known.fs.Volume(), read.fs.Volume())
	}
	if !known.fs.Bounded() || !read.fs.Bounded() {
		t.Error("the root is not the top of its file system")
	}
	for _, w := range []*world{known, read} {
		var a vfs.Attr
		w.ok(w.fs.GetAttr(&vfs.Op{Cred: w.op.Cred, Want: vfs.WantMountedOn}, w.fs.Root(), &a), "GetAttr")
		if a.MountedOn != covered.Ino {
			t.Errorf("mounted on file %d, want %d", a.MountedOn, covered.Ino)
		}
	}
}
