package local

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest/stalled"
)

// If the listing of a directory fails, at its beginning or in its middle, the index is told: otherwise it would
// hold the directory for searched, and the handles of the files behind the failure for stale.
func TestIndexIsToldOfListingsThatFail(t *testing.T) {
	m := stalled.Mount(t)
	fs, err := New(Config{Root: m.Dir, StateDir: t.TempDir(), IndexHandles: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fs.Close() })
	dir := filepath.Join(m.Dir, "d")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	const files = 2000
	for i := range files {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint("a name with some length ", i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	inTheMiddle := 0
	for after := 0; ; after++ {
		m.FailAfter(after, syscall.EIO)
		names := 0
		err := indexedTree{fs}.Names(fd, func([]byte) bool { names++; return true })
		if !m.Failed() {
			if err != nil || names != files {
				t.Errorf("without a failure: %d names, %v", names, err)
			}
			break
		}
		if err != syscall.EIO {
			t.Errorf("request %d of the listing failed after %d names: %v", after, names, err)
		}
		if names > 0 {
			inTheMiddle++
		}
	}
	if inTheMiddle == 0 {
		t.Error("no listing failed in its middle")
	}
}
