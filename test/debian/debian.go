// Package debian gives tests clean roots of Debian, and the packages that packaging/ builds.
package debian

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// Suites are the releases of Debian on which the packages are tested.
var Suites = []string{"bookworm", "trixie"}

// Root unpacks a clean root of a release into a directory that lasts as long as the test, and returns it. The root is
// as a container would have it: with systemd, with the further packages in more, and without network. mmdebstrap makes
// it once for each machine.
func Root(t testing.TB, suite string, more ...string) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	name := strings.Join(append([]string{suite}, more...), "+")
	archive := filepath.Join(cache, "nfsrdmad-roots", name+".tar")
	if _, err := os.Stat(archive); err != nil {
		if err := os.MkdirAll(filepath.Dir(archive), 0o755); err != nil {
			t.Fatal(err)
		}
		fresh, err := os.CreateTemp(filepath.Dir(archive), name+".*.tar")
		if err != nil {
			t.Fatal(err)
		}
		fresh.Close()
		Run(t, "", nil, "mmdebstrap", "--quiet", "--variant=minbase", "--include="+strings.Join(append([]string{"systemd"}, more...), ","), suite, fresh.Name())
		if err := os.Rename(fresh.Name(), archive); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	Run(t, "", nil, "tar", "-C", dir, "-xf", archive)
	return dir
}

// Package builds the package of a format, deb or rpm, for this machine's architecture, and returns the name of its
// file. The tree of the sources is two directories up. 'nfsrdmad version' prints the version, too.
func Package(t testing.TB, format, version string) string {
	t.Helper()
	out := t.TempDir()
	Pack(t, "../..", out, version, "packaging/package.sh", format)
	files, err := filepath.Glob(filepath.Join(out, "nfsrdmad*."+format))
	if err != nil || len(files) != 1 {
		t.Fatalf("package.sh %s wrote %q, %v", format, files, err)
	}
	return files[0]
}

// Pack runs a script of packaging/ in a tree of the sources, for this machine's architecture.
func Pack(t testing.TB, tree, out, version, script string, args ...string) {
	t.Helper()
	env := []string{"OUT=" + out, "VERSION=" + version, "PACKAGE_VERSION=" + version, "SOURCE_DATE_EPOCH=1700000000", "ARCHITECTURES=" + runtime.GOARCH, "WITHOUT_VERBS=yes"}
	Run(t, tree, env, script, args...)
}

// Run runs a program in a directory, with more variables in its environment, and fails the test unless it succeeds.
func Run(t testing.TB, dir string, env []string, name string, args ...string) {
	t.Helper()
	c := exec.Command(name, args...)
	c.Dir, c.Env = dir, append(os.Environ(), env...)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatal(fmt.Errorf("%s %q: %w\n%s", name, args, err, out))
	}
}
