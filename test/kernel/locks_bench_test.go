//go:build bench

package kernel

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/test/kernel/lab"
)

// TestLocksPeersBenchmark compares how often a client of version 3 locks and unlocks a byte in a second, at the daemon and
// at Linux's own server. Each serves from a guest of its own. The servers take turns.
func TestLocksPeersBenchmark(t *testing.T) {
	const rounds = 3
	rates := map[string][]float64{}
	for range rounds {
		for _, server := range []string{"nfsrdmad", "knfsd"} {
			n := lab.NewNetwork(t)
			args, port := []string{"serve"}, "20048"
			if server == "nfsrdmad" {
				args, port = append(args, daemon(t)), "2049"
			}
			limit := lab.Options{Limit: 4 * time.Minute}
			serving := lab.Boot(t, n, limit, script(t, "locks_rate"), args...)
			serving.Await("serving")
			limit.Env = []string{"WORKER=" + build(t, "test/kernel/worker"), "EXPORT=/srv/memory", "LOCKS=lock", "MOUNT_PORT=" + port, "SERVER=" + serving.Address()}
			client := lab.Boot(t, n, limit, script(t, "locks_rate"), "measure")
			client.Succeed()
			serving.Signal("stop")
			serving.Succeed()
			for line := range strings.Lines(client.Output()) {
				var owners int
				var rate float64
				if n, _ := fmt.Sscanf(line, "pairs %d %g", &owners, &rate); n == 2 {
					name := fmt.Sprintf("%s, %d owners", server, owners)
					rates[name] = append(rates[name], rate)
					t.Logf("%s: %.0f a second", name, rate)
				}
			}
		}
	}
	median := func(name string) float64 {
		all := rates[name]
		if len(all) == 0 {
			t.Fatalf("nothing was measured of %s", name)
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	for _, owners := range []string{"1", "16"} {
		ours, theirs := median("nfsrdmad, "+owners+" owners"), median("knfsd, "+owners+" owners")
		fmt.Printf("LOCK and UNLOCK, version 3, %s owners: nfsrdmad %.0f a second, knfsd %.0f, ratio %.2f\n", owners, ours, theirs, ours/theirs)
	}
}
