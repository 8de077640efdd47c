package exports

import (
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
)

// The location of the state directory is remembered, but not when a directory above it has moved.
func TestStateDirectoryIsFoundAfterAMove(t *testing.T) {
	base := t.TempDir()
	for _, dir := range []string{"a/b/state", "other"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(base, "link")
	move := func(to string) {
		t.Helper()
		os.Remove(link)
		if err := os.Symlink(filepath.Join(base, to), link); err != nil {
			t.Fatal(err)
		}
	}
	move("a/b/state")
	all := NewFilesystems(link, zap.NewNop(), descriptors)
	apart := func(dir string) bool {
		t.Helper()
		fd, err := unix.Open(filepath.Join(base, dir), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		return all.apartFrom(fd) == nil
	}
	for range 2 {
		if apart("a") || !apart("other") {
			t.Error("before the move")
		}
	}
	if err := os.Rename(filepath.Join(base, "a/b"), filepath.Join(base, "other/b")); err != nil {
		t.Fatal(err)
	}
	move("other/b/state")
	for range 2 {
		if !apart("a") || apart("other") {
			t.Error("after the move")
		}
	}
}

// A mount that shows the state directory is not apart from it, whatever directory it is mounted on.
func TestMountOfTheStateDirectoryIsNotServed(t *testing.T) {
	base := t.TempDir()
	for _, dir := range []string{"srv/holds", "srv/within", "srv/beside", "a/state/in", "b"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	all := NewFilesystems(filepath.Join(base, "a/state"), zap.NewNop(), descriptors)
	for at, c := range map[string]struct {
		source string
		apart  bool
	}{"holds": {"a", false}, "within": {"a/state/in", false}, "beside": {"b", true}} {
		at = filepath.Join(base, "srv", at)
		if err := unix.Mount(filepath.Join(base, c.source), at, "", unix.MS_BIND, ""); err != nil {
			t.Skip(err)
		}
		t.Cleanup(func() { unix.Unmount(at, unix.MNT_DETACH) })
		fd, err := unix.Open(at, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		st, err := status(fd)
		if err != nil {
			t.Fatal(err)
		}
		where, err := locateFD(fd)
		if err != nil {
			t.Fatal(err)
		}
		m := &export.Found{ID: st.Mnt_id, Device: where.device, Root: where.path, Point: at}
		if err := all.mountApartFrom(m, &st); (err == nil) != c.apart {
			t.Errorf("a mount of %s: %v", c.source, err)
		}
	}
}
