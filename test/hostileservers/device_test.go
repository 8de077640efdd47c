package hostileservers_test

import (
	"context"
	"io"
	"math"
	"net"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/client/bench"
	"github.com/nfsrdmad/nfsrdmad/client/probe"
	"github.com/nfsrdmad/nfsrdmad/client/relay"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/fakedevice"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/test/testserver"
)

// simulated returns two providers of RDMA devices: one for servers, one for clients. Both use the same simulated device. When
// the test has ended, nothing of the device may be left.
func simulated(t *testing.T, iwarp bool) (servers, clients *verbs.Provider) {
	d := fakedevice.New(iwarp)
	open := func() *verbs.Provider {
		p, err := verbs.New(verbs.Config{Library: d})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	servers, clients = open(), open()
	t.Cleanup(func() {
		// Each provider keeps an ID for the device that it has opened.
		await.Until(t, "all connections end", func() bool { left := d.Left(); return left.IDs == left.Devices && left.Conns+left.Queues == 0 })
		servers.Close()
		clients.Close()
		if left := d.Left(); left != (fakedevice.Left{}) {
			t.Errorf("of the device's objects there is left %+v", left)
		}
	})
	return servers, clients
}

// onDevices runs f for each kind of simulated device: one for RoCE, and with NFSRDMAD_TEST_ALL one for iWARP.
func onDevices(t *testing.T, f func(t *testing.T, iwarp bool)) {
	t.Run("RoCE", func(t *testing.T) { t.Parallel(); f(t, false) })
	if os.Getenv("NFSRDMAD_TEST_ALL") != "" {
		t.Run("iWARP", func(t *testing.T) { t.Parallel(); f(t, true) })
	}
}

// A clients is what the libraries of the tools connect with.
type clients struct {
	ctx       context.Context
	target    client.Target
	mountPort int
	timeout   time.Duration
}

func portNumber(address string) int {
	n, _ := strconv.Atoi(port(address))
	return n
}

// probe and bench return whether they have found an NFS server, and measured it.
func (c clients) probe() bool {
	p := probe.Run(c.ctx, probe.Config{
		Host: c.target.Host, Port: c.target.Port, Transports: []client.Transport{c.target.Transport}, MountPort: c.mountPort,
		Provider: c.target.Provider, Timeout: c.timeout,
	})
	p.Print(io.Discard)
	return p.Serves(true)
}

func (c clients) bench(nfs string) bool {
	_, err := bench.Run(c.ctx, bench.Config{
		Target: c.target, Export: "/x", MountPort: c.mountPort, NFS: nfs, Workload: "getattr", Size: 512, FileSize: 4096, Depth: 4,
		Duration: 200 * time.Millisecond, Timeout: c.timeout,
	})
	return err == nil
}

// all runs the clients at the same time, and returns how many of them succeeded.
func (c clients) all() (succeeded int) {
	var running sync.WaitGroup
	var mu sync.Mutex
	for _, f := range []func() bool{c.probe, func() bool { return c.bench("3") }, func() bool { return c.bench("4.1") }} {
		running.Go(func() {
			if f() {
				mu.Lock()
				defer mu.Unlock()
				succeeded++
			}
		})
	}
	running.Wait()
	return succeeded
}

// relayed runs the clients through a relay by TCP, if the relay takes the server for one.
func (c clients) relayed(t *testing.T) (succeeded int) {
	r, err := relay.New(relay.Config{Target: c.target, MountPort: c.mountPort, Timeout: c.timeout, Memory: 64 << 20})
	if err != nil {
		t.Error(err)
		return 0
	}
	defer r.Close()
	if r.Check(c.ctx) != nil {
		return 0
	}
	l, err := net.Listen("tcp", testserver.Loopback.String())
	if err != nil {
		t.Error(err)
		return 0
	}
	go r.Serve(l)
	at := portNumber(l.Addr().String())
	return clients{c.ctx, client.Target{Host: "127.0.0.1", Port: at, Transport: client.TCP, Cred: client.Self()}, at, c.timeout}.all()
}

// meet lets the libraries of probe, bench and relay meet a server over a simulated device, and returns how many of the clients
// succeeded: of three, and of three behind the relay.
func meet(t *testing.T, iwarp bool, serve responder, mount string, timeout time.Duration) (succeeded, behindRelay int) {
	servers, provider := simulated(t, iwarp)
	address := listenRDMA(t, servers, serve)
	ctx, cancel := context.WithTimeout(t.Context(), testserver.Patience)
	defer cancel()
	c := clients{ctx, client.Target{
		Transport: client.RDMA, Host: "127.0.0.1", Port: portNumber(address), Provider: provider, Cred: client.Self(),
	}, portNumber(mount), timeout}
	var running sync.WaitGroup
	running.Go(func() { succeeded = c.all() })
	running.Go(func() { behindRelay = c.relayed(t) })
	running.Wait()
	if ctx.Err() != nil {
		t.Error("the clients did not end by themselves")
	}
	return succeeded, behindRelay
}

// What the tools connect with ends by itself over RDMA devices as well, whatever the server sends, and leaves nothing of the
// device. The device is simulated, and package rdmacm/verbs works with it as with a real one. With servers that are none, no
// client succeeds; with one that answers as a server does, all succeed.
func TestClientsOverADevice(t *testing.T) {
	real := testserver.Start(t)
	real.ServeNFS4(t, time.Minute)
	mount := mountOf(t, real)
	onDevices(t, func(t *testing.T, iwarp bool) {
		t.Run("as it is", func(t *testing.T) {
			whole := spoiled(real.TCP.String(), func() *spoiler { return spoil(math.MaxInt, nil) })
			if direct, relayed := meet(t, iwarp, whole, mount, testserver.Patience); direct != 3 || relayed != 3 {
				t.Errorf("%d clients of 3 succeeded, and %d of 3 behind the relay", direct, relayed)
			}
		})
		for name, serve := range inertRDMA {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				if direct, relayed := meet(t, iwarp, serve, mount, time.Second); direct+relayed > 0 {
					t.Errorf("%d clients succeeded, and %d behind the relay", direct, relayed)
				}
			})
		}
		each(t, manglingsOfRDMA(), func(t *testing.T, whole int, do mangling) {
			meet(t, iwarp, spoiled(real.TCP.String(), func() *spoiler { return spoil(whole, do) }), mount, time.Second)
		})
	})
}
