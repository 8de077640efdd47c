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
// at Linux's own server. Each serves from a guest of its own. The servers take turns. GETATTR is measured beside the locks:
// it shows what any call costs at a server in user space, in a guest of this kind. In user mode each system call of a guest is
// several switches between processes of the host, which a server in the guest's kernel does not pay; under QEMU's emulation a
// system call costs about as many instructions as on a processor.
func TestLocksPeersBenchmark(t *testing.T) {
	for _, kernel := range []lab.Kernel{lab.UserMode, lab.Stock6_12} {
		t.Run(string(kernel), func(t *testing.T) { compareLocks(t, kernel) })
	}
}

func compareLocks(t *testing.T, kernel lab.Kernel) {
	const rounds = 3
	rates := map[string][]float64{}
	for range rounds {
		for _, server := range []string{"nfsrdmad", "knfsd"} {
			n := lab.NewNetwork(t)
			args, port := []string{"serve"}, "20048"
			if server == "nfsrdmad" {
				args, port = append(args, daemon(t)), "2049"
			}
			options := lab.Options{Kernel: kernel, Limit: 8 * time.Minute}
			serving := lab.Boot(t, n, options, script(t, "locks_rate"), args...)
			serving.Await("serving")
			options.Env = []string{"WORKER=" + build(t, "test/kernel/worker"), "EXPORT=/srv/memory", "LOCKS=lock", "MOUNT_PORT=" + port, "SERVER=" + serving.Address()}
			client := lab.Boot(t, n, options, script(t, "locks_rate"), "measure")
			client.Succeed()
			serving.Signal("stop")
			serving.Succeed()
			for line := range strings.Lines(client.Output()) {
				var what string
				var threads int
				var rate float64
				if n, _ := fmt.Sscanf(line, "rate %s %d %g", &what, &threads, &rate); n == 3 {
					name := fmt.Sprintf("%s, %s, %d", server, what, threads)
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
	for _, what := range []string{"lock", "getattr"} {
		for _, threads := range []string{"1", "16"} {
			ours, theirs := median("nfsrdmad, "+what+", "+threads), median("knfsd, "+what+", "+threads)
			fmt.Printf("version 3, kernel %s, %s, %s threads: nfsrdmad %.0f a second, knfsd %.0f, ratio %.2f\n", kernel, what, threads, ours, theirs, ours/theirs)
		}
	}
}
