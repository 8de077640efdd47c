//go:build kernel

package kernel

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/test/kernel/lab"
	"github.com/nfsrdmad/nfsrdmad/test/krb5realm"
)

// TestDeviceSuite runs the conformance suite of rdmacm through librdmacm and libibverbs, on an
// rxe device and on a siw device.
func TestDeviceSuite(t *testing.T) {
	if !everything() {
		t.Skip("make test-all runs it: TestDevices shows the same provider at work")
	}
	t.Parallel()
	suite := buildTest(t, "rdmacm/verbs")
	for _, device := range []string{"rxe", "siw"} {
		for _, kernel := range append([]lab.Kernel{lab.Usual()}, stocks...) {
			t.Run(device+"/"+string(kernel), func(t *testing.T) {
				t.Parallel()
				lab.Run(t, lab.NewNetworkOf(t, jumbo), lab.Options{Kernel: kernel, Limit: 22 * time.Minute},
					"RDMA_DEVICE="+device+"\n"+script(t, "device_suite"), suite)
			})
		}
	}
}

// devices is a daemon that runs in a guest and serves on an RDMA device of the guest's kernel.
type devices struct {
	*server
	guest  *lab.Guest
	scenes int
}

// serveDevices runs the daemon in a guest on an RDMA device of that kind, rxe or siw, through
// librdmacm and libibverbs.
func serveDevices(t *testing.T, kind, provider string, options lab.Options) *devices {
	t.Helper()
	return serveDevicesTo(&server{t: t, network: lab.NewNetworkOf(t, jumbo)}, kind, provider, "sys", options)
}

// serveDevicesInRealm is serveDevices with a daemon that also accepts Kerberos.
func serveDevicesInRealm(t *testing.T, kind string, options lab.Options) *devices {
	t.Helper()
	k := inRealm(t, lab.NewNetworkOf(t, jumbo), krb5realm.Options{})
	k.configure(t, []string{machineIsRoot})
	options.Env = append(options.Env, "KRB5_CONFIG="+k.realm.Conf)
	return serveDevicesTo(k.server, kind, "verbs", "sys:krb5p", options, "--config", k.config)
}

// serveDevicesTo is serveDevices for a given server, with security flavors of the export and further
// flags of the daemon.
func serveDevicesTo(s *server, kind, provider, security string, options lab.Options, flags ...string) *devices {
	s.t.Helper()
	program := build(s.t, "cmd/nfsrdmad", "-tags", "verbs,netgo,osusergo")
	return s.runOnDevice(kind, options, "", append([]string{
		program, "serve", "--state-dir", "/tmp/state", "--rdma-provider", provider,
		"--export", "/srv/work:/work,rw,insecure,no_root_squash,sec=" + security,
	}, flags...)...)
}

// runOnDevice runs the daemon by this command in a guest with an RDMA device of that kind. The
// guest runs the script preparation before.
func (s *server) runOnDevice(kind string, options lab.Options, preparation string, command ...string) *devices {
	s.t.Helper()
	options.Address, options.Memory = peerAddress, 1000
	device := "RDMA_DEVICE=" + kind
	options.Env = append(options.Env, device)
	g := lab.Boot(s.t, s.network, options, preparation+script(s.t, "serve_devices"), command...)
	s.t.Cleanup(func() {
		if log, err := os.ReadFile(g.Shared("log")); s.t.Failed() && err == nil {
			s.t.Logf("the daemon printed:\n%s", log)
		}
	})
	g.Await("serving")
	s.env = append(s.env, device, "EXPORT=/work", "SERVER="+g.Address())
	return &devices{server: s, guest: g}
}

// scene makes the server's guest run a function of its script, and waits until the function
// returns.
func (d *devices) scene(name string) {
	d.t.Helper()
	d.scenes++
	d.guest.Signal(fmt.Sprintf("%d.%s", d.scenes, name))
	d.guest.Await(fmt.Sprint(d.scenes))
}

// stop ends the daemon. The script fails if an object of the device is still in use.
func (d *devices) stop() {
	d.t.Helper()
	d.guest.Signal("stop")
	for line := range strings.Lines(d.guest.Succeed()) {
		if strings.HasPrefix(line, "[") {
			d.t.Log(strings.TrimSpace(line))
		}
	}
}

// The daemon works through librdmacm and libibverbs on an rxe device in one guest. A Linux client
// in another guest mounts it over rxe and works as root and as other users. The other users
// matter because a thread that has once changed its user could not use the device any more. After
// each mount the test removes the device and adds it again.
func TestDevices(t *testing.T) {
	t.Parallel()
	d := serveDevices(t, "rxe", "verbs", lab.Options{Limit: 8 * time.Minute})
	hows := []string{"rdma", "rdma/4.2"}
	if everything() {
		hows = []string{"rdma", "rdma/4.0", "rdma/4.1", "rdma/4.2"}
	}
	folder := 0
	for _, how := range hows {
		for _, work := range []string{"write_remount_compare", "permissions"} {
			d.run(lab.Options{Limit: 4 * time.Minute, Address: 15, Env: []string{fmt.Sprintf("EXPORT=/work/%d", folder)}}, work, how)
			folder++
		}
		d.scene("remove")
	}
	d.stop()
}

// The daemon works through librdmacm and libibverbs on rxe and on siw in one guest, with a Linux
// client on the same kind of device in another guest. The kernels are Debian's own, unchanged,
// with their own rxe, and with siw, which Debian leaves out.
func TestDeviceKernels(t *testing.T) {
	t.Parallel()
	type kernels struct{ server, client lab.Kernel }
	clients := map[string][]kernels{
		"rxe": {{lab.Usual(), lab.Stock6_12}},
		"siw": {{lab.Usual(), lab.Usual()}},
	}
	hows := []string{"rdma"}
	if everything() {
		hows = nil
		for _, version := range []string{"rdma/4.2", "rdma", "rdma/4.1", "rdma/4.0"} {
			hows = append(hows, version, version+":krb5p")
		}
		clients["rxe"] = append(clients["rxe"], kernels{lab.Usual(), lab.Stock6_1},
			kernels{lab.Stock6_1, lab.Stock6_1}, kernels{lab.Stock6_12, lab.Stock6_12})
		clients["siw"] = append(clients["siw"], kernels{lab.Stock6_1, lab.Stock6_1}, kernels{lab.Stock6_12, lab.Stock6_12})
	}
	for device, all := range clients {
		for _, k := range all {
			t.Run(fmt.Sprintf("%s/%s/%s", device, k.server, k.client), func(t *testing.T) {
				t.Parallel()
				hows := hows
				if k.server != lab.Usual() { // Two emulated guests are slow, so Kerberos runs only once.
					hows = []string{"rdma/4.2", "rdma/4.2:krb5p", "rdma", "rdma/4.1", "rdma/4.0"}
				}
				d := serveDevicesInRealm(t, device, lab.Options{Kernel: k.server, Limit: time.Hour})
				d.run(lab.Options{Kernel: k.client, Limit: 50 * time.Minute}, "stock", hows...)
				d.stop()
			})
		}
	}
}

// If the device that the daemon serves on is removed while a client works, the daemon releases
// it, and the client continues when the device is added again. The order in which the modules of
// a stock kernel are loaded decides what the daemon is told: if ib_uverbs is loaded before
// rdma_cm, the daemon gets an event for the removal, and otherwise it does not. The module of rxe
// loads ib_uverbs, and rdma_ucm loads rdma_cm before ib_uverbs. A user-mode kernel has them in
// the second order.
func TestDeviceRemovedUnderLoad(t *testing.T) {
	if !everything() {
		t.Skip("make test-all runs it: TestDevices has the device go and come back as well")
	}
	t.Parallel()
	for _, removal := range []struct {
		kernel          lab.Kernel
		first, provider string
	}{
		{lab.Usual(), "", "auto"},
		{lab.Stock6_12, "rdma_rxe", "verbs"},
		{lab.Stock6_12, "rdma_ucm", "auto"},
		{lab.Stock6_1, "rdma_rxe", "verbs"},
		{lab.Stock6_1, "rdma_ucm", "auto"},
	} {
		t.Run(path.Join(string(removal.kernel), removal.first), func(t *testing.T) {
			t.Parallel()
			options := lab.Options{Kernel: removal.kernel, Limit: 12 * time.Minute, Env: []string{"FIRST_MODULE=" + removal.first}}
			d := serveDevices(t, "rxe", removal.provider, options)
			l := d.load("rdma/4.2", "strict")
			for range 2 {
				l.progress()
				d.scene("remove")
			}
			l.finish()
			d.stop()
		})
	}
}

// stocks are Debian's kernels, unchanged.
var stocks = []lab.Kernel{lab.Stock6_1, lab.Stock6_12}

// overKernels runs a test with each kernel: the lab's own, and Debian's if the full matrix is
// requested. Server and client of the test have the same kernel.
func overKernels(t *testing.T, test func(t *testing.T, kernel lab.Kernel)) {
	t.Parallel()
	kernels := []lab.Kernel{lab.Usual()}
	if everything() {
		kernels = append(kernels, stocks...)
	}
	for _, kernel := range kernels {
		t.Run(string(kernel), func(t *testing.T) {
			t.Parallel()
			test(t, kernel)
		})
	}
}

// A client continues its work through each of these: the server has no network for 2 s and for 20
// s, its link is down for 2 s and for 20 s, and the daemon is killed. Every change that the
// daemon acknowledged is still present. Then the client is killed, and another client finds every
// change that was acknowledged to the first.
func TestDeviceScenes(t *testing.T) {
	if !everything() {
		t.Skip("make test-all runs it")
	}
	overKernels(t, func(t *testing.T, kernel lab.Kernel) {
		d := serveDevices(t, "rxe", "verbs", lab.Options{Kernel: kernel, Limit: time.Hour})
		l := d.loadOn(kernel, "rdma", "outages")
		for _, outage := range []time.Duration{2 * time.Second, 20 * time.Second} {
			l.progress()
			d.network.Cut(peerAddress)
			// The outage itself is what the test is about. It is not a wait for an event.
			<-time.After(outage)
			d.network.Heal(peerAddress)
		}
		for _, scene := range []string{"down2", "down20", "killed"} {
			l.progress()
			d.scene(scene)
		}
		l.finish()
		d.env = append(d.env, "EXPORT=/work/1")
		l = d.loadOn(kernel, "rdma", "strict")
		l.progress()
		l.guest.Kill()
		d.run(lab.Options{Kernel: kernel, Limit: 20 * time.Minute, Writable: []string{l.ledgers}}, "acknowledged", "rdma", l.ledgers)
		d.scene("forgets")
		d.stop()
	})
}

// A client that does nothing loses its power. The daemon, which has nothing to send to it, notices
// that, and ends the client's connection.
func TestDeviceClientDiesIdle(t *testing.T) {
	overKernels(t, func(t *testing.T, kernel lab.Kernel) {
		d := serveDevices(t, "rxe", "verbs", lab.Options{Kernel: kernel, Limit: 20 * time.Minute})
		g := d.boot(lab.Options{Kernel: kernel, Limit: 10 * time.Minute}, "idle", "rdma")
		g.Await("idle")
		d.scene("serves")
		g.Kill()
		d.scene("forgets")
		d.stop()
	})
}

// Strangers at five addresses open as many connections as a daemon can have that may open few files. The daemon lives,
// and a client mounts the export meanwhile. limits.connections asks for more than the limit of open files allows.
//
// It runs only with the full matrix: a client in a guest gives up where a busy machine makes it wait too long.
func TestDeviceDescriptors(t *testing.T) {
	if !everything() {
		t.Skip("make test-all runs it: TestDevices shows the same provider at work")
	}
	t.Parallel()
	config := filepath.Join(t.TempDir(), "nfsrdmad.toml")
	text := "[limits]\nconnections = 10000\nfirst_call_timeout = \"1h\"\n[memory]\nceiling = \"64M\"\n[rnic]\ncredits = 16\ndevice_memory = \"500M\"\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, network: lab.NewNetworkOf(t, jumbo)}
	addresses := "for i in 0 1 2 3 4; do ip addr add 10.0.3.$((100 + i))/24 dev \"$NIC\"; done\n"
	d := s.runOnDevice("rxe", lab.Options{Limit: 30 * time.Minute}, addresses, build(t, "cmd/nfsrdmad", "-tags", "verbs,netgo,osusergo"),
		"serve", "--config", config, "--state-dir", "/tmp/state", "--rdma-provider", "verbs", "--export", "/srv/work:/work,rw,insecure,no_root_squash")
	connector := build(t, "test/kernel/connector", "-tags", "verbs,netgo,osusergo")
	for _, limit := range []int{460, 512, 1024} {
		d.scene(fmt.Sprint("descriptors", limit))
		g := d.boot(lab.Options{Limit: 10 * time.Minute, Address: 15}, "press", connector, fmt.Sprint(limit/7), "100")
		g.Await("pressed")
		d.scene("lives")
		g.Signal("leave")
		t.Log(lastLine(g.Succeed()))
	}
	d.scene("forgets")
	d.stop()
}

// After many connections, of which a tenth end because their process is killed, the daemon has as
// many open descriptors and goroutines as before, and the device has as many objects.
func TestDeviceConnections(t *testing.T) {
	processes := 20
	if everything() {
		processes = 100
	}
	overKernels(t, func(t *testing.T, kernel lab.Kernel) {
		d := serveDevices(t, "rxe", "verbs", lab.Options{Kernel: kernel, Limit: time.Hour})
		connector := build(t, "test/kernel/connector", "-tags", "verbs,netgo,osusergo")
		connect := func(processes int) {
			d.run(lab.Options{Kernel: kernel, Limit: 45 * time.Minute, Address: 15}, "connect", connector, fmt.Sprint(processes))
		}
		connect(1) // opens the device, which then stays open
		d.scene("remember")
		d.scene("count_goroutines") // ends this daemon and starts another one
		connect(1)
		d.scene("remember")
		connect(processes)
		d.scene("as_before")
		d.scene("same_goroutines")
		d.stop()
	})
}
