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
	"github.com/nfsrdmad/nfsrdmad/test/krb5realm"
)

// Over RDMA the network has frames of benchMTU, about the size of loopback's, which knfsd and its
// client in one guest use: siw sends a frame for each FPDU. Over TCP it has frames of tcpMTU.
// With benchMTU the client's kernel came to offer a receive window of 512 bytes after some
// hundred small replies, and reading went on at a segment each 200 ms, in 2 of 3 runs; with
// net.ipv4.tcp_rmem at 4 MiB from the start in none of 3. With tcpMTU it was not seen. The cause
// is a guess: by tcp_measure_rcv_mss of Linux 6.12 the window is the receive buffer times the
// share of data in the memory of a segment, in 256ths and at least one, and the guest's driver
// takes memory for a whole frame for each.
const (
	benchMTU = 65000
	tcpMTU   = 9000
)

// measures are the measured values, in the table's order: the file that scripts/bench.sh leaves
// in SHARED, and the way to read it.
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

// fioDirection is the part of fio's JSON for a job's one direction.
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

// peer is a server of the comparison, and the way to mount it. start starts it on a network,
// exporting the folder memory, in this machine's memory, as /memory, and the folder disk as
// /disk, and returns the environment for the client. A peer in the client's own guest has no
// start.
type peer struct {
	name string
	// how is the argument of mount_over, and security the value of sec=.
	how, security string
	// base is the peer that this one is compared with.
	base  string
	start func(t testing.TB, n *lab.Network, p *peer, memory, disk string) []string
	// frames is the size of the network's frames, in bytes; 0 for benchMTU.
	frames int
	// kernel is that of the client's guest, and of the server's if it has one; the user-mode kernel if empty.
	kernel lab.Kernel
	// device is the RDMA device of the guests; siw if empty.
	device string
}

// comparison is a table: each round measures its peers in this order.
type comparison struct {
	name   string
	rounds int
	peers  []peer
}

const ganesha = "nfs-ganesha, TCP"

var comparisons = []comparison{
	{"servers", 3, []peer{
		{name: "nfsrdmad, RDMA, async", how: "rdma", security: "sys", base: ganesha, start: startOurs("async"), frames: 0},
		{name: "nfsrdmad, TCP, async", how: "tcp", security: "sys", base: ganesha, start: startOurs("async"), frames: tcpMTU},
		{name: "nfsrdmad, RDMA, sync", how: "rdma", security: "sys", base: ganesha, start: startOurs("sync"), frames: 0},
		{name: "nfsrdmad, TCP, sync", how: "tcp", security: "sys", base: ganesha, start: startOurs("sync"), frames: tcpMTU},
		{name: ganesha, how: "tcp", security: "sys", base: "", start: startGanesha, frames: tcpMTU},
		{name: "knfsd, RDMA, in the client's guest, async", how: "rdma", security: "sys", base: ganesha, start: nil, frames: 0},
	}},
	{"versions", 2, slices.Concat(
		eachVersion("nfsrdmad, RDMA", "rdma", "4.2", startOurs("async")),
		eachVersion("nfsrdmad, TCP", "tcp", "4.2", startOurs("async")),
		// Linux reports an I/O error for READ_PLUS of nfs-ganesha 4.3.
		eachVersion("nfs-ganesha, TCP", "tcp", "4.1", startGanesha),
		eachVersion("knfsd, RDMA, in the client's guest", "rdma", "4.2", nil),
	)},
	{"security", 2, slices.Concat(
		eachSecurity("nfsrdmad, RDMA", "rdma/4.2", startOurs("async")),
		eachSecurity("nfsrdmad, TCP", "tcp/4.2", startOurs("async")),
		eachSecurity("knfsd, RDMA, in the client's guest", "rdma/4.2", nil),
		eachSecurity("knfsd, TCP, in the client's guest", "tcp/4.2", nil),
	)},
	{"devices", 3, overRXE("")},
	{"devices of a stock kernel", 3, overRXE(lab.Stock6_12)},
}

// overRXE returns Linux's server and the daemon by librdmacm and libibverbs, each in a guest of its own with the same kernel.
func overRXE(kernel lab.Kernel) []peer {
	base := "knfsd, rxe"
	return []peer{
		{name: "nfsrdmad, rxe", how: "rdma", security: "sys", base: base, start: startDevice(true), frames: jumbo, kernel: kernel, device: "rxe"},
		{name: base, how: "rdma", security: "sys", start: startDevice(false), frames: jumbo, kernel: kernel, device: "rxe"},
	}
}

// eachVersion returns a server by NFSv3, and the same server by a minor version of NFSv4,
// compared with the first.
func eachVersion(name, transport, version string, start func(testing.TB, *lab.Network, *peer, string, string) []string) []peer {
	frames := framesOver(transport)
	return []peer{
		{name: name + ", 3", how: transport, security: "sys", start: start, frames: frames},
		{name: name + ", " + version, how: transport + "/" + version, security: "sys", base: name + ", 3", start: start, frames: frames},
	}
}

func framesOver(how string) int {
	if strings.HasPrefix(how, "tcp") {
		return tcpMTU
	}
	return benchMTU
}

// eachSecurity returns a server without Kerberos, and the same server with each kind of Kerberos,
// compared with the first.
func eachSecurity(name, how string, start func(testing.TB, *lab.Network, *peer, string, string) []string) (all []peer) {
	base := ""
	for _, security := range []string{"sys", "krb5", "krb5i", "krb5p"} {
		all = append(all, peer{name: name + ", " + security, how: how, security: security, base: base, start: start, frames: framesOver(how)})
		base = all[0].name
	}
	return all
}

// TestPeersBenchmark measures the daemon beside other servers, one version of NFS beside another,
// and Kerberos beside none, with the same jobs from the same user-mode kernel in one run. It
// prints a table of medians with their ratios for each comparison.
func TestPeersBenchmark(t *testing.T) {
	for _, c := range comparisons {
		t.Run(c.name, func(t *testing.T) {
			results := map[string][][]float64{} // by peer: for each measure, the values of all rounds
			for round := range c.rounds {
				for _, p := range c.peers {
					// The name becomes a part of paths, in which a comma would begin an export's
					// options.
					t.Run(fmt.Sprintf("%d/%s", round, strings.ReplaceAll(p.name, ",", "")), func(t *testing.T) {
						if results[p.name] == nil {
							results[p.name] = make([][]float64, len(measures))
						}
						for i, value := range measurePeer(t, &p) {
							results[p.name][i] = append(results[p.name][i], value)
							t.Logf("%s: %.0f %s", measures[i].name, value, measures[i].unit)
						}
					})
				}
			}
			fmt.Print(table(&c, results))
		})
	}
}

func measurePeer(t testing.TB, p *peer) []float64 {
	t.Helper()
	mtu := benchMTU
	if p.frames > 0 {
		mtu = p.frames
	}
	n := lab.NewNetworkOf(t, mtu)
	memory, disk := lab.Folder(t, "export"), t.TempDir()
	options := lab.Options{Kernel: p.kernel, Memory: 1500, Limit: 5 * time.Minute, Env: []string{"WORKER=" + build(t, "test/kernel/worker")}}
	if p.device != "" {
		options.Env = append(options.Env, "RDMA_DEVICE="+p.device)
	}
	if p.start != nil {
		options.Env = append(options.Env, p.start(t, n, p, memory, disk)...)
	} else {
		// In the guest, this machine's disk is a file on it.
		image := filepath.Join(disk, "image")
		makeDisk(t, image, 2<<30)
		options.Memory = 2500
		options.Writable = []string{disk}
		options.Env = append(options.Env, "IMAGE="+image)
		if p.security != "sys" {
			k := inRealm(t, n, krb5realm.Options{})
			k.addKernelServer(t)
			options.Env = append(options.Env, k.env...)
		}
	}
	g := lab.Boot(t, n, options, script(t, "bench"), p.how, p.security)
	g.Succeed()
	var values []float64
	for _, m := range measures {
		values = append(values, m.value(t, g))
	}
	return values
}

func startOurs(mode string) func(testing.TB, *lab.Network, *peer, string, string) []string {
	return func(t testing.TB, n *lab.Network, p *peer, memory, disk string) []string {
		t.Helper()
		options := ",rw,no_root_squash,sec=" + p.security + "," + mode
		exports := []string{memory + ":/memory" + options, disk + ":/disk" + options}
		if p.security == "sys" {
			lab.StartDaemon(t, n, daemon(t), t.TempDir(), exports[0], "--export", exports[1])
			return nil
		}
		k := inRealm(t, n, krb5realm.Options{})
		k.configure(t, []string{machineIsRoot})
		k.start(t, exports...)
		return k.env
	}
}

// startDevice runs the daemon, or Linux's own server, on the device of a guest of its own. Memory and disk are that guest's: the
// disk is a file on this machine's.
func startDevice(ours bool) func(testing.TB, *lab.Network, *peer, string, string) []string {
	return func(t testing.TB, n *lab.Network, p *peer, _, disk string) []string {
		t.Helper()
		image := filepath.Join(disk, "image")
		makeDisk(t, image, 2<<30)
		arguments := []string{image}
		if ours {
			arguments = append(arguments, build(t, "cmd/nfsrdmad", "-tags", "verbs,netgo,osusergo"), "--rdma-provider", "verbs")
		}
		g := lab.Boot(t, n, lab.Options{
			Kernel: p.kernel, Memory: 2500, Address: peerAddress, Limit: 10 * time.Minute, Writable: []string{disk},
			Env: []string{"RDMA_DEVICE=" + p.device},
		}, script(t, "serve_measured"), arguments...)
		g.Await("serving")
		t.Cleanup(func() {
			g.Signal("stop")
			t.Log(g.Succeed())
		})
		if ours {
			return []string{"SERVER=" + g.Address()}
		}
		return []string{"SERVER=" + g.Address(), "MEMORY=/srv/memory", "DISK=/srv/memory/disk", "MOUNT_PORT=20048"}
	}
}

func startGanesha(t testing.TB, n *lab.Network, p *peer, memory, disk string) []string {
	t.Helper()
	work := t.TempDir()
	var config strings.Builder
	config.WriteString(`NFS_CORE_PARAM { Protocols = 3, 4; NFS_Port = 2049; MNT_Port = 20048; Enable_NLM = false; Enable_RQUOTA = false; }
NFSv4 { Graceless = true; Minor_Versions = 1, 2; }
LOG { Default_Log_Level = WARN; }
`)
	for i, export := range []struct{ path, name string }{{memory, "/memory"}, {disk, "/disk"}} {
		fmt.Fprintf(&config, "EXPORT { Export_Id = %d; Path = %q; Pseudo = %q; Access_Type = RW; Squash = no_root_squash; Protocols = 3, 4; Transports = TCP; SecType = sys; MaxRead = 1048576; MaxWrite = 1048576; FSAL { Name = VFS; } }\n",
			i+1, export.path, export.name)
	}
	file := filepath.Join(work, "ganesha.conf")
	if err := os.WriteFile(file, []byte(config.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	// nfs-ganesha needs an rpcbind, which must not be this machine's, and a place for its records
	// of clients: it gets its own /run and its own place.
	start := fmt.Sprintf("mount -t tmpfs run /run && mount -t tmpfs clients /var/lib/nfs && mkdir /run/ganesha && rpcbind -w && exec ganesha.nfsd -F -L STDERR -f %s -p %s/pid", file, work)
	lab.StartServer(t, n, "nfs-ganesha", []string{"unshare", "-m", "sh", "-c", start}, 2049, 20048)
	if strings.Contains(p.how, "/") {
		return nil // NFSv4 uses the exports' names
	}
	return []string{"MEMORY=" + memory, "DISK=" + disk, "MOUNT_PORT=20048"}
}

// table returns a table in Markdown: a line for each server, and after each median its ratio to
// the peer that it is compared with.
func table(c *comparison, results map[string][][]float64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n| %s |", c.name)
	for _, m := range measures {
		fmt.Fprintf(&b, " %s (%s) |", m.name, m.unit)
	}
	b.WriteString("\n|---|" + strings.Repeat("---:|", len(measures)) + "\n")
	for _, p := range c.peers {
		fmt.Fprintf(&b, "| %s |", p.name)
		for i := range measures {
			if results[p.name] == nil || len(results[p.name][i]) == 0 {
				b.WriteString(" failed |")
				continue
			}
			value := median(results[p.name][i])
			fmt.Fprintf(&b, " %.0f", value)
			if r := results[p.base]; r != nil && len(r[i]) > 0 {
				fmt.Fprintf(&b, " (%.2f)", value/median(r[i]))
			}
			b.WriteString(" |")
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "\nMedians of %d rounds; in parentheses the ratio to the server's first line, or to %s. One client, a user-mode Linux 6.12 with one processor unless the table says otherwise.\n", c.rounds, ganesha)
	return b.String()
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
