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
// machine; in make test-all, over version 2 of RPC-over-RDMA, too.
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
	defer func() { onDisk, far = false, nil }()
	ways := []bool{false}
	if os.Getenv("NFSRDMAD_TEST_ALL") != "" {
		ways = append(ways, true)
	}
	for _, version2 := range ways {
		far = func(t testing.TB, directory string) *nfs4test.Site {
			return nfs4test.StartDaemon(t, nfs4test.DaemonConfig{Program: program, Directory: directory, Version2: version2}).Site
		}
		for name, test := range throughout {
			if version2 {
				name += " over version 2"
			}
			t.Run(name, test)
		}
	}
}
