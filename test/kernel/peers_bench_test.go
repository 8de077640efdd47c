//go:build bench

package kernel

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/test/kernel/lab"
)

// benchRounds is how often each server is measured; the table has the medians.
const benchRounds = 3

// benchMTU is about loopback's, which knfsd and its client in one guest have between them.
const benchMTU = 65000

// measures are what is measured, in the table's order: what scripts/bench.sh leaves in SHARED, and how a report reads.
var measures = []struct {
	name, unit string
	value      func(t testing.TB, g *lab.Guest) float64
}{
	{"1 MiB sequential write", "MB/s", fioValue("write", func(d fioDirection) float64 { return d.Bandwidth * 1024 / 1e6 })},
	{"1 MiB sequential read", "MB/s", fioValue("read", func(d fioDirection) float64 { return d.Bandwidth * 1024 / 1e6 })},
	{"4 KiB random read, depth 16", "reads/s", fioValue("randread", func(d fioDirection) float64 { return d.Rate })},
	{"create, stat, unlink", "rounds/s", func(t testing.TB, g *lab.Guest) float64 {
		var rounds float64
		for line := range strings.Lines(g.Output()) {
			fmt.Sscanf(line, "rounds %g", &rounds)
		}
		return rounds
	}},
}

// fioDirection is what is read of fio's JSON for the one direction that a job has.
type fioDirection struct {
	Bandwidth float64 `json:"bw"` // KiB/s
	Rate      float64 `json:"iops"`
}

func fioValue(job string, value func(fioDirection) float64) func(testing.TB, *lab.Guest) float64 {
	return func(t testing.TB, g *lab.Guest) float64 {
		t.Helper()
		text, err := os.ReadFile(g.Shared(job + ".json"))
		if err != nil {
			t.Fatal(err)
		}
		var report struct {
			Jobs []struct{ Read, Write fioDirection }
		}
		if err := json.Unmarshal(text, &report); err != nil {
			t.Fatalf("%s: %v", job, err)
		}
		return value(report.Jobs[0].Read) + value(report.Jobs[0].Write)
	}
}

// peer is a server of the comparison. start puts it on a network, exporting the folder memory, in this machine's memory,
// as /memory, and the folder disk as /disk, and gives the environment for the client. A peer in the client's own guest
// has no start.
type peer struct {
	name, transport string
	start           func(t testing.TB, n *lab.Network, memory, disk string) []string
}

// peers are measured in this order in each round; ratios are to the one named reference.
var peers = []peer{
	{"nfsrdmad, RDMA, async", "rdma", startOurs("async")},
	{"nfsrdmad, TCP, async", "tcp", startOurs("async")},
	{"nfsrdmad, RDMA, sync", "rdma", startOurs("sync")},
	{"nfsrdmad, TCP, sync", "tcp", startOurs("sync")},
	{"nfs-ganesha, TCP", "tcp", startGanesha},
	{"knfsd, RDMA, in the client's guest, async", "rdma", nil},
}

const reference = "nfs-ganesha, TCP"

// TestPeersBenchmark measures the daemon beside other servers, the same jobs from the same user-mode kernel in one run,
// and prints a table of medians with their ratios to nfs-ganesha.
func TestPeersBenchmark(t *testing.T) {
	results := map[string][][]float64{} // by peer: for each measure, the values of all rounds
	for round := range benchRounds {
		for _, p := range peers {
			// The name becomes a part of paths, in which a comma would begin an export's options.
			t.Run(fmt.Sprintf("%d/%s", round, strings.ReplaceAll(p.name, ",", "")), func(t *testing.T) {
				if results[p.name] == nil {
					results[p.name] = make([][]float64, len(measures))
				}
				for i, value := range measurePeer(t, p) {
					results[p.name][i] = append(results[p.name][i], value)
				}
			})
		}
	}
	fmt.Print(table(results))
}

func measurePeer(t testing.TB, p peer) []float64 {
	t.Helper()
	n := lab.NewNetworkOf(t, benchMTU)
	memory, disk := lab.Folder(t, "export"), t.TempDir()
	options := lab.Options{Memory: 1500, Limit: 5 * time.Minute, Env: []string{"WORKER=" + build(t, "test/kernel/worker")}}
	if p.start != nil {
		options.Env = append(options.Env, p.start(t, n, memory, disk)...)
	} else {
		// The disk of this machine is in the guest a file on it.
		image := filepath.Join(disk, "image")
		makeDisk(t, image, 2<<30)
		options.Memory = 2500
		options.Writable = []string{disk}
		options.Env = append(options.Env, "IMAGE="+image)
	}
	g := lab.Boot(t, n, options, script(t, "bench"), p.transport)
	g.Succeed()
	var values []float64
	for _, m := range measures {
		values = append(values, m.value(t, g))
	}
	return values
}

func startOurs(mode string) func(testing.TB, *lab.Network, string, string) []string {
	return func(t testing.TB, n *lab.Network, memory, disk string) []string {
		t.Helper()
		options := ",rw,no_root_squash," + mode
		lab.StartDaemon(t, n, daemon(t), t.TempDir(), memory+":/memory"+options, "--export", disk+":/disk"+options)
		return nil
	}
}

func startGanesha(t testing.TB, n *lab.Network, memory, disk string) []string {
	t.Helper()
	work := t.TempDir()
	var config strings.Builder
	config.WriteString(`NFS_CORE_PARAM { Protocols = 3; NFS_Port = 2049; MNT_Port = 20048; Enable_NLM = false; Enable_RQUOTA = false; }
LOG { Default_Log_Level = WARN; }
`)
	for i, export := range []struct{ path, name string }{{memory, "/memory"}, {disk, "/disk"}} {
		fmt.Fprintf(&config, "EXPORT { Export_Id = %d; Path = %q; Pseudo = %q; Access_Type = RW; Squash = no_root_squash; Protocols = 3; Transports = TCP; SecType = sys; MaxRead = 1048576; MaxWrite = 1048576; FSAL { Name = VFS; } }\n",
			i+1, export.path, export.name)
	}
	file := filepath.Join(work, "ganesha.conf")
	if err := os.WriteFile(file, []byte(config.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	// It wants an rpcbind, which must not be this machine's: /run is its own.
	start := fmt.Sprintf("mount -t tmpfs run /run && mkdir /run/ganesha && rpcbind -w && exec ganesha.nfsd -F -L STDERR -f %s -p %s/pid", file, work)
	lab.StartServer(t, n, "nfs-ganesha", []string{"unshare", "-m", "sh", "-c", start}, 2049, 20048)
	return []string{"MEMORY=" + memory, "DISK=" + disk, "MOUNT_PORT=20048"}
}

// table is markdown: a line for each server, and under each median its ratio to the reference.
func table(results map[string][][]float64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n| server, transport, export mode |")
	for _, m := range measures {
		fmt.Fprintf(&b, " %s (%s) |", m.name, m.unit)
	}
	b.WriteString("\n|---|" + strings.Repeat("---:|", len(measures)) + "\n")
	for _, p := range peers {
		fmt.Fprintf(&b, "| %s |", p.name)
		for i := range measures {
			if results[p.name] == nil || len(results[p.name][i]) == 0 {
				b.WriteString(" failed |")
				continue
			}
			value := median(results[p.name][i])
			fmt.Fprintf(&b, " %.0f", value)
			if r := results[reference]; p.name != reference && r != nil && len(r[i]) > 0 {
				fmt.Fprintf(&b, " (%.2f)", value/median(r[i]))
			}
			b.WriteString(" |")
		}
		b.WriteByte('\n')
	}
	rounds := 0
	for _, r := range results {
		rounds = max(rounds, len(r[0]))
	}
	fmt.Fprintf(&b, "\nMedians of %d rounds; in parentheses the ratio to %s. One client, a user-mode Linux 6.12 with one processor.\n", rounds, reference)
	return b.String()
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
