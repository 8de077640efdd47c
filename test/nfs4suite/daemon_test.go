//go:build interop

package nfs4suite

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

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

// The daemon takes a crowd of clients as well, and another one when the leases of the first
// have run out: 1,000 clients with as many files each.
func TestDaemonTakesACrowd(t *testing.T) {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil || limit.Max < 20000 {
		t.Skip("there may be too few open files")
	}
	d := nfs4test.StartDaemon(t, nfs4test.DaemonConfig{Program: program, Directory: exported(t), NFS: `lease_time = "5s"`})
	crowd(t, d.Site, "first", 500)
	time.Sleep(6 * time.Second) // which is what this is about: the daemon's own clock
	crowd(t, d.Site, "second", 500)
}
