package local_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// xfs mounts an XFS file system, whose files can share storage. It skips the test if the machine
// does not allow that.
func xfs(t *testing.T) string {
	t.Helper()
	image, at := filepath.Join(t.TempDir(), "disk"), t.TempDir()
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, 400<<20); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfs.xfs", "-q", "-m", "reflink=1", image).CombinedOutput(); err != nil {
		t.Skipf("mkfs.xfs: %v: %s", err, out)
	}
	if out, err := exec.Command("mount", "-o", "loop", image, at).CombinedOutput(); err != nil {
		t.Skipf("mount: %v: %s", err, out)
	}
	t.Cleanup(func() { unix.Unmount(at, unix.MNT_DETACH) })
	return at
}

// The suite passes on XFS, which has clones.
func TestSuiteOnXFS(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	mounted := xfs(t)
	suite(t, "xfs", func(t *testing.T) string {
		dir, err := os.MkdirTemp(mounted, "")
		if err != nil {
			t.Fatal(err)
		}
		return dir
	}, false)
	// The clone tests, which other file systems skip, run here.
	w := newWorld(t, local.Config{Root: mounted})
	w.used("from")
	from, err := w.lookup(w.fs.Root(), "from")
	w.ok(err, "Lookup")
	r, to := w.open(from, vfs.OpenRead), w.open(w.create(w.fs.Root(), "to"), vfs.OpenWrite)
	w.ok(w.fs.CloneRange(w.op, r, 0, to, 0, 0), "CloneRange")
	matrix{t, w.fs, mounted}.storageSetID()
}

// If the kernel cannot copy between two file systems, the FS copies by reads and writes.
func TestCopyBetweenFileSystems(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("local-test", dir, "tmpfs", 0, ""); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	a, b := newWorld(t, local.Config{}), newWorld(t, local.Config{Root: dir})
	text := strings.Repeat("0123456789", 100_000)
	h := a.create(a.fs.Root(), "f")
	a.ok(a.write(h, text), "Write")
	from, to := a.open(h, vfs.OpenRead), b.open(b.create(b.fs.Root(), "g"), vfs.OpenWrite)
	var n uint64
	for n < uint64(len(text)) {
		got, err := b.fs.CopyRange(b.op, from, n, to, n, 0)
		b.ok(err, "CopyRange")
		if got == 0 {
			break
		}
		n += got
	}
	if got, err := os.ReadFile(b.path("g")); string(got) != text || err != nil {
		t.Errorf("%d bytes arrived of %d, %v", len(got), len(text), err)
	}
	b.want(b.fs.CloneRange(b.op, from, 0, to, 0, 0), syscall.EXDEV, "CloneRange between file systems")
	_, err := a.fs.CopyRange(a.op, from, 0, to, 0, 0)
	a.want(err, syscall.EBADF, "CopyRange by the file system that it is not to")
}
