//go:build kernel

package kernel

import (
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/test/kernel/lab"
)

// TestToolsOverDevices has probe, bench and relay go by librdmacm and libibverbs, over rxe: to Linux's own server, and to the
// daemon on the same device. doctor finds nothing wrong with the device.
func TestToolsOverDevices(t *testing.T) {
	if !everything() {
		t.Skip("make test-all runs it")
	}
	t.Parallel()
	options := lab.Options{Memory: 1000, Limit: 5 * time.Minute, Env: []string{
		"NFSRDMAD=" + build(t, "cmd/nfsrdmad", "-tags", "verbs,netgo,osusergo"),
	}}
	lab.Run(t, lab.NewNetworkOf(t, jumbo), options, "RDMA_DEVICE=rxe\n"+script(t, "tools_devices"))
}
