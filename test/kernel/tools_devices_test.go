//go:build kernel

package kernel

import (
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/test/kernel/lab"
)

// The tools probe, bench and relay work through librdmacm and libibverbs over rxe: with Linux's
// own server, and with the daemon on the same device, by versions 1 and 2 of RPC-over-RDMA. The
// tool doctor finds no fault with the device.
func TestToolsOverDevices(t *testing.T) {
	if !everything() {
		t.Skip("make test-all runs it")
	}
	t.Parallel()
	options := lab.Options{Memory: 1000, Limit: 8 * time.Minute, Env: []string{
		"NFSRDMAD=" + build(t, "cmd/nfsrdmad", "-tags", "verbs,netgo,osusergo"),
	}}
	lab.Run(t, lab.NewNetworkOf(t, jumbo), options, "RDMA_DEVICE=rxe\n"+script(t, "tools_devices"))
}

// The tools probe, bench and relay meet the hostile servers of test/hostileservers through librdmacm
// and libibverbs over rxe. Servers and tools are in one guest.
func TestHostileServersOverDevices(t *testing.T) {
	if !everything() {
		t.Skip("make test-all runs it: it takes some six minutes alone, and test/hostileservers has a simulated device")
	}
	t.Parallel()
	options := lab.Options{Memory: 2000, Limit: 30 * time.Minute, Env: []string{
		"NFSRDMAD=" + build(t, "cmd/nfsrdmad", "-tags", "verbs,netgo,osusergo"),
	}}
	lab.Run(t, lab.NewNetworkOf(t, jumbo), options, "RDMA_DEVICE=rxe\n"+script(t, "hostile_servers"), buildTest(t, "test/hostileservers"))
}
