//go:build interop

package nfs40_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
)

// The tests in throughout pass against a server process, over TCP and with a directory of this
// machine.
func TestDaemon(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("files of all users and devices are made by the superuser alone")
	}
	program := filepath.Join(t.TempDir(), "nfsrdmad")
	build := exec.Command("go", "build", "-o", program, "./cmd/nfsrdmad")
	build.Dir = "../../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the daemon: %v\n%s", err, out)
	}
	onDisk = true
	far = func(t testing.TB, directory string) *nfs4test.Site {
		return nfs4test.StartDaemon(t, nfs4test.DaemonConfig{Program: program, Directory: directory}).Site
	}
	defer func() { onDisk, far = false, nil }()
	for name, test := range throughout {
		t.Run(name, test)
	}
}
