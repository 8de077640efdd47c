//go:build interop

package nfs4suite

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
)

// program is the daemon's, of the tree.
var program string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "nfsrdmad-suite-")
	if err != nil {
		panic(err)
	}
	program = filepath.Join(dir, "nfsrdmad")
	build := exec.Command("go", "build", "-o", program, "./cmd/nfsrdmad")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building the daemon: %v\n%s", err, out)
		os.Exit(1)
	}
	further["daemon"] = func(t *testing.T) *nfs4test.Site {
		return nfs4test.StartDaemon(t, nfs4test.DaemonConfig{Program: program, Directory: exported(t)}).Site
	}
	status := m.Run()
	os.RemoveAll(dir)
	os.Exit(status)
}
