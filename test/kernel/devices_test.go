//go:build kernel

package kernel

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/test/kernel/lab"
)

// jumbo is the MTU that rxe wants for InfiniBand's largest packets.
const jumbo = 9000

// TestDeviceSuite runs the conformance suite of the rdmacm seam over rxe, by librdmacm and libibverbs.
func TestDeviceSuite(t *testing.T) {
	if os.Getenv("NFSRDMAD_TEST_ALL") == "" {
		t.Skip("make test-all runs it: TestDevices shows the same provider at work")
	}
	t.Parallel()
	suite := filepath.Join(t.TempDir(), "verbs.test")
	c := exec.Command("go", "test", "-c", "-tags", "verbs", "-o", suite, "github.com/nfsrdmad/nfsrdmad/rdmacm/verbs")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	n := lab.NewNetworkOf(t, jumbo)
	lab.Boot(t, n, lab.Options{Limit: 6 * time.Minute}, "RDMA_DEVICE=rxe\n"+script(t, "device_suite"), suite).Succeed()
}

// TestDevices has the daemon serve by librdmacm and libibverbs on rxe in one guest, and Linux's client mount it over rxe in
// another: as root and as other users, whom a thread that once acted as a caller could not answer any more.
func TestDevices(t *testing.T) {
	t.Parallel()
	program := build(t, "cmd/nfsrdmad", "-tags", "verbs,netgo,osusergo")
	n := lab.NewNetworkOf(t, jumbo)
	server := lab.Boot(t, n, lab.Options{Address: peerAddress, Memory: 1000, Limit: 8 * time.Minute},
		"RDMA_DEVICE=rxe\n"+script(t, "serve_devices"), program, "--rdma-provider", "verbs")
	server.Await("serving")
	hows := []string{"rdma", "rdma/4.2"}
	if os.Getenv("NFSRDMAD_TEST_ALL") != "" {
		hows = []string{"rdma", "rdma/4.0", "rdma/4.1", "rdma/4.2"}
	}
	folder := 0
	for _, how := range hows {
		for _, work := range []string{"write_remount_compare", "permissions"} {
			lab.Boot(t, n, lab.Options{Limit: 4 * time.Minute, Address: 15},
				fmt.Sprintf("RDMA_DEVICE=rxe EXPORT=/work/%d SERVER=%s\n%s", folder, server.Address(), script(t, work)), how).Succeed()
			folder++
		}
	}
	server.Signal("stop")
	server.Succeed()
}
