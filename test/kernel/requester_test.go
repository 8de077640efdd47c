//go:build kernel

package kernel

import (
	"bytes"
	"context"
	"os/exec"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/test/kernel/lab"
)

// nfsrdmad's requester on this machine works with Linux's own server in a guest, so that TCP
// segments and siw's FPDUs cross a link. The test makes transfers of every size up to 1 MiB and
// compares their data. It also tests listings in Reply chunks, names of 255 bytes, and calls in
// Position-Zero Read chunks. TestToolsAgainstKernelServer tests the tools.
func TestRequesterAgainstKernelServer(t *testing.T) {
	t.Parallel()
	for _, kernel := range []struct {
		kernel        lab.Kernel
		rounds, names string
	}{{lab.Usual(), "16", "400"}, {lab.Stock6_1, "4", "60"}, {lab.Stock6_12, "4", "60"}} {
		if kernel.kernel == lab.Stock6_12 && !everything() {
			continue
		}
		t.Run(string(kernel.kernel), func(t *testing.T) {
			t.Parallel()
			const limit = 8 * time.Minute
			requester := build(t, "test/requester")
			n := lab.NewNetwork(t)
			g := lab.Boot(t, n, lab.Options{Kernel: kernel.kernel, Limit: limit}, script(t, "serve_memory"))
			g.Await("serving")
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			c := n.Command(requester, "--limit", "5m", "--mount-port", "20048", "--rounds", kernel.rounds, "--names", kernel.names, g.Address(), "/srv/memory")
			out, err := exec.CommandContext(ctx, c.Args[0], c.Args[1:]...).CombinedOutput()
			t.Logf("%s", out)
			if err != nil {
				t.Fatalf("requester: %v", err)
			}
			g.Signal("stop")
			g.Succeed()
		})
	}
}

// nfsrdmad's requester of NFSv4.1 and 4.2 works with Linux's own server in a guest: data, names,
// locks, and a delegation that the server recalls. Each session ends with DESTROY_CLIENTID, which
// the server refuses if the requester has left any state.
func TestSessionsAgainstKernelServer(t *testing.T) {
	t.Parallel()
	requester := build(t, "test/requester")
	n := lab.NewNetwork(t)
	const limit = 3 * time.Minute
	g := lab.Boot(t, n, lab.Options{Limit: limit}, script(t, "serve_memory"))
	g.Await("serving")
	recalled := false
	for _, version := range versions[1:] {
		for _, transport := range transports {
			t.Run(version+"/"+transport, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				defer cancel()
				c := n.Command(requester, "--limit", "30s", "--nfs", version, "--transport", transport, g.Address(), "/")
				out, err := exec.CommandContext(ctx, c.Args[0], c.Args[1:]...).CombinedOutput()
				t.Logf("%s", out)
				if err != nil {
					t.Fatalf("requester: %v", err)
				}
				recalled = recalled || !bytes.Contains(out, []byte("no delegation was granted"))
			})
		}
	}
	if !recalled {
		t.Error("no delegation was granted at any time")
	}
	g.Signal("stop")
	g.Succeed()
}
