//go:build interop

package install

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/debian"
)

// Two releases that are built in different directories, with different masks, locales and time zones, are the same
// bytes. The compiled packages in Go's cache serve both.
func TestReleaseIsReproducible(t *testing.T) {
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = "../.."
	files, err := list.Output()
	if err != nil {
		t.Skipf("the test copies the files that git knows: %v", err)
	}
	var built [2]map[string][]byte
	for i, mask := range []string{"022", "077"} {
		tree, out := t.TempDir(), t.TempDir()
		c := exec.Command("sh", "-c", "umask "+mask+` && xargs -0 cp --parents --no-preserve=mode,timestamps -t "$0"`, tree)
		c.Dir, c.Stdin = "../..", bytes.NewReader(files)
		if b, err := c.CombinedOutput(); err != nil {
			t.Fatalf("copying the tree: %v\n%s", err, b)
		}
		debian.Run(t, tree, nil, "chmod", "+x", "packaging/package.sh", "packaging/dist.sh")
		t.Setenv("TZ", []string{"UTC", "Asia/Tokyo"}[i])
		t.Setenv("LC_ALL", []string{"C", "C.UTF-8"}[i])
		debian.Pack(t, tree, out, "1.0", "packaging/dist.sh")
		built[i] = make(map[string][]byte)
		names, _ := filepath.Glob(filepath.Join(out, "*"))
		for _, name := range names {
			if built[i][filepath.Base(name)], err = os.ReadFile(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	if want := 6; len(built[0]) != want { // a deb, an rpm, a program, its SBOM, the checksums and the list of changes
		t.Errorf("%d files were built, want %d: %q", len(built[0]), want, slices.Sorted(maps.Keys(built[0])))
	}
	for name, b := range built[0] {
		if !bytes.Equal(b, built[1][name]) {
			t.Errorf("%s differs from one build to the next", name)
		}
	}
}
