package server_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/nfsrdmad/nfsrdmad/server"
	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/server/servertest"
)

// hang is the time after which a waiting test fails.
const hang = time.Minute

// root is the path of the repository.
const root = ".."

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	t.Cleanup(cancel)
	return ctx
}

// ownLoopback returns a random loopback address, which hardly any other test uses at the same
// time. So fixed ports are free there.
func ownLoopback() netip.Addr {
	return netip.AddrFrom4([4]byte{127, byte(1 + rand.IntN(250)), byte(rand.IntN(250)), byte(2 + rand.IntN(250))})
}

// needRDMAPort skips a test with a fixed port if another server listens on that port of
// every address.
func needRDMAPort(t testing.TB, ip netip.Addr) {
	t.Helper()
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(ip, config.DefaultRDMAPort)))
	if err != nil {
		t.Skip("another server has the port: ", err)
	}
	l.Close()
}

// scratch is the directory with the files of the whole test run.
var scratch string

func TestMain(m *testing.M) {
	var err error
	if scratch, err = os.MkdirTemp("", "nfsrdmad-server"); err != nil {
		panic(err)
	}
	// Users other than root must be able to run the daemon, too.
	if err := os.Chmod(scratch, 0o755); err != nil {
		panic(err)
	}
	status := m.Run()
	if status == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			status = 1
		}
	}
	os.RemoveAll(scratch)
	os.Exit(status)
}

var buildOnce = sync.OnceValues(func() (string, error) {
	program := filepath.Join(scratch, "nfsrdmad")
	build := exec.Command("go", "build", "-ldflags", "-X main.version=v0-test", "-o", program, "./cmd/nfsrdmad")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return program, nil
})

// binary builds the daemon's program from the tree and returns its path.
func binary(t testing.TB) string {
	t.Helper()
	program, err := buildOnce()
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// nfsrdmad starts the program with arguments.
func nfsrdmad(t testing.TB, args ...string) *servertest.Process {
	t.Helper()
	return servertest.StartProcess(t, exec.Command(binary(t), args...))
}

// A daemon is a running daemon process, with its addresses and directories.
type daemon struct {
	*servertest.Process
	tcp, rdma netip.AddrPort
	export    string // directory
	state     string
}

// start starts a daemon on a separate address with one export, a new directory with the
// name /. It waits until the daemon serves.
func start(t testing.TB, options string, more ...string) *daemon {
	t.Helper()
	return startOn(t, t.TempDir(), t.TempDir(), options, more...)
}

func startOn(t testing.TB, directory, state, options string, more ...string) *daemon {
	t.Helper()
	ip := ownLoopback()
	d := &daemon{
		tcp: servertest.FreePort(t, ip), rdma: servertest.FreePort(t, ip),
		export: directory, state: state,
	}
	d.Process = nfsrdmad(t, append([]string{
		"serve", "--state-dir", d.state, "--tcp", d.tcp.String(), "--rdma", d.rdma.String(),
		"--export", d.export + ":/," + options,
	}, more...)...)
	d.AwaitLine("serving")
	return d
}

// mounted connects over TCP, and mounts the export "/".
func (d *daemon) mounted(t testing.TB) (c *servertest.Client, root servertest.Handle) {
	t.Helper()
	ctx := testContext(t)
	c, err := servertest.DialTCP(ctx, d.tcp)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if root, err = c.Mount(ctx, "/"); err != nil {
		t.Fatal(err)
	}
	return c, root
}

// dialBoth connects over both transports.
func (d *daemon) dialBoth(t testing.TB) map[string]*servertest.Client {
	t.Helper()
	ctx := testContext(t)
	clients := make(map[string]*servertest.Client)
	for name, dial := range map[string]func() (*servertest.Client, error){
		"tcp":  func() (*servertest.Client, error) { return servertest.DialTCP(ctx, d.tcp) },
		"rdma": func() (*servertest.Client, error) { return servertest.DialRDMA(ctx, d.rdma) },
	} {
		c, err := dial()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		clients[name] = c
	}
	return clients
}

// run serves until stop or the end of the test.
func run(t testing.TB, s *server.Server) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(hang):
			t.Error("the server does not end")
		}
	}
	t.Cleanup(stop)
	return stop
}
