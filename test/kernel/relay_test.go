//go:build kernel

package kernel

import (
	"strconv"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/test/kernel/lab"
)

// The tools probe, bench and relay work with Linux's own server over siw. probe reports its
// versions. bench runs every workload over RDMA (1 MiB transfers, READDIRPLUS with Reply chunks,
// long names). TCP clients of other projects reach the server through relay and copy a file there
// and back.
func TestToolsAgainstKernelServer(t *testing.T) {
	t.Parallel()
	for _, kernel := range []struct {
		kernel lab.Kernel
		size   int // size of the file in MiB
	}{{lab.Usual(), 100}, {lab.Stock6_1, 16}, {lab.Stock6_12, 16}} {
		if kernel.kernel != lab.Usual() && !everything() {
			continue
		}
		t.Run(string(kernel.kernel), func(t *testing.T) {
			t.Parallel()
			options := lab.Options{Kernel: kernel.kernel, Memory: 2000, Limit: 10 * time.Minute, Env: []string{
				"NFSRDMAD=" + build(t, "cmd/nfsrdmad"),
				"GONFSCLIENT=" + build(t, "test/interop/gonfsclient", "-tags", "interop"),
			}}
			out := lab.Run(t, lab.NewNetwork(t), options, script(t, "relay"), strconv.Itoa(kernel.size))
			t.Log(lastLine(out))
		})
	}
}

// A recall of a delegation by Linux's own server, which is reached over siw, passes the relay: Linux's
// client, which mounts by TCP with NFSv4.1 and 4.2, returns the delegation long before the lease ends.
func TestRelayCarriesRecalls(t *testing.T) {
	t.Parallel()
	options := lab.Options{Kernel: lab.UserMode, Memory: 1000, Limit: 10 * time.Minute, Env: []string{"NFSRDMAD=" + build(t, "cmd/nfsrdmad")}}
	out := lab.Run(t, lab.NewNetwork(t), options, script(t, "relay_callbacks"))
	t.Log(out)
}
