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

// Over RDMA the network has an MTU of benchMTU, because siw sends a frame for each FPDU. This is
// about the MTU of loopback, which knfsd and its client in one guest use. Over TCP the MTU is
// tcpMTU. With benchMTU over TCP, in 2 of 3 runs the client's kernel offered a receive window of
// 512 bytes after some hundred small replies, and then received one segment each 200 ms. With
// net.ipv4.tcp_rmem at 4 MiB from the start, this happened in none of 3 runs. With tcpMTU it was
// not seen. The cause is a guess. In tcp_measure_rcv_mss of Linux 6.12 the window is the receive
// buffer times the share of data in the memory of a segment, in 256ths and at least one, and the
// guest's driver allocates memory for a whole frame for each segment.
const (
	benchMTU = 65000
	tcpMTU   = 9000
)

// measures are the measured values, in the order of the table. value reads a result from a file
// that scripts/bench.sh writes to SHARED.
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

// fioDirection is the part of fio's JSON output for reads or for writes.
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

// A peer is a server in the comparison, and the way to mount it. start starts the server on a
// network and returns variables for the client's script. The server exports the folder memory as
// /memory and the folder disk as /disk. start is nil if the server runs in the client's own
// guest.
type peer struct {
	name string
	// how is the argument of mount_over. security is the value of sec=.
	how, security string
	// base is the name of the peer that this one is compared with.
	base  string
	start func(t testing.TB, n *lab.Network, p *peer, memory, disk string) []string
	// frames is the MTU of the network, in bytes; 0 means benchMTU.
	frames int
	// kernel is the kernel of the client's guest, and of the server's guest if there is one.
	// Empty means the user-mode kernel.
	kernel lab.Kernel
	// device is the kind of the guests' RDMA device; empty means siw.
	device string
}

// A comparison is one table. Each round measures its peers in this order.
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
		// READ_PLUS of nfs-ganesha 4.3 makes Linux report an I/O error, so NFSv4.2 is not used.
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

// overRXE returns two peers for each of async and sync: Linux's server, and the daemon through
// librdmacm and libibverbs. Each runs in a guest of its own with the same kernel, on rxe.
func overRXE(kernel lab.Kernel) (all []peer) {
	for _, mode := range []string{"async", "sync"} {
		base := "knfsd, rxe, " + mode
		all = append(all,
			peer{name: "nfsrdmad, rxe, " + mode, how: "rdma", security: "sys", base: base, start: startDevice(true, mode), frames: jumbo, kernel: kernel, device: "rxe"},
			peer{name: base, how: "rdma", security: "sys", start: startDevice(false, mode), frames: jumbo, kernel: kernel, device: "rxe"})
	}
	return all
}

// eachVersion returns two peers: a server over NFSv3, and the same server over a minor version of
// NFSv4, which is compared with the first.
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

// eachSecurity returns a server without Kerberos, and the same server with krb5, krb5i and krb5p,
// which are compared with the first.
func eachSecurity(name, how string, start func(testing.TB, *lab.Network, *peer, string, string) []string) (all []peer) {
	base := ""
	for _, security := range []string{"sys", "krb5", "krb5i", "krb5p"} {
		all = append(all, peer{name: name + ", " + security, how: how, security: security, base: base, start: start, frames: framesOver(how)})
		base = all[0].name
	}
	return all
}

// TestPeersBenchmark compares the daemon with other servers, versions of NFS with each other, and
// Kerberos with AUTH_SYS. All run the same jobs. It prints a Markdown table of medians with their
// ratios for each comparison.
func TestPeersBenchmark(t *testing.T) {
	for _, c := range comparisons {
		t.Run(c.name, func(t *testing.T) {
			results := map[string][][]float64{} // by peer: for each measure, the values of all rounds
			for round := range c.rounds {
				for _, p := range c.peers {
					// The name becomes part of paths, and after a comma the daemon would read the
					// options of an export.
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
		// The disk of a server in the client's guest is an image file on this machine's disk.
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

// startDevice returns a function that runs the daemon, or Linux's own server, in a guest of its
// own on an RDMA device. The exports have the option mode, async or sync. The exported memory is the
// guest's. The exported disk is an image file on this machine's disk.
func startDevice(ours bool, mode string) func(testing.TB, *lab.Network, *peer, string, string) []string {
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
			Env: []string{"RDMA_DEVICE=" + p.device, "MODE=" + mode},
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
	// nfs-ganesha needs an rpcbind, which must not be this machine's, and a directory for its
	// client records. So it gets its own /run and its own /var/lib/nfs.
	start := fmt.Sprintf("mount -t tmpfs run /run && mount -t tmpfs clients /var/lib/nfs && mkdir /run/ganesha && rpcbind -w && exec ganesha.nfsd -F -L STDERR -f %s -p %s/pid", file, work)
	lab.StartServer(t, n, "nfs-ganesha", []string{"unshare", "-m", "sh", "-c", start}, 2049, 20048)
	if strings.Contains(p.how, "/") {
		return nil // NFSv4 clients mount /memory and /disk, which are the defaults
	}
	return []string{"MEMORY=" + memory, "DISK=" + disk, "MOUNT_PORT=20048"}
}

// table returns a Markdown table with a row for each server. After each median stands its ratio
// to the median of the peer that it is compared with.
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
