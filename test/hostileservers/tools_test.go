package hostileservers_test

import (
	"flag"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/providers"
	"github.com/nfsrdmad/nfsrdmad/server/servertest"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/test/testserver"
)

// The flags name another setting than loopback with the software RNIC: see doc.go.
var (
	provider = flag.String("provider", providers.IWARP, "the provider by which the tools and the servers do RDMA")
	host     = flag.String("address", "127.0.0.1", "the address at which the servers listen")
	program  = flag.String("program", "", "the program nfsrdmad to test; empty means that the test builds it")
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(func() int {
		if *program != "" {
			return m.Run()
		}
		dir, err := os.MkdirTemp("", "nfsrdmad-hostileservers")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		*program = filepath.Join(dir, "nfsrdmad")
		if out, err := exec.Command("go", "build", "-o", *program, "../../cmd/nfsrdmad").CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

const (
	// mostMemory is the most memory that a tool may have to write to, in KiB (RLIMIT_DATA). Go maps 64 MiB at a time. A
	// tool that wants more ends with status 2.
	mostMemory = 256 << 10
	// relayMemory is the memory that a relay takes for calls when it starts, in KiB.
	relayMemory = 256 << 10
	// soon is the value of --timeout with which a tool meets a hostile server, and late that for one that answers.
	soon, late = "1s", "20s"
	// mostOutput is the most that a tool prints, in bytes.
	mostOutput = 16 << 10
)

// A tool is a run of nfsrdmad.
type tool struct {
	*servertest.Process
	name string
}

func start(t *testing.T, args ...string) *tool {
	t.Helper()
	limit := mostMemory
	if args[0] == "relay" {
		limit += relayMemory
	}
	limited := fmt.Sprintf(`ulimit -d %d && exec "$0" "$@"`, limit)
	cmd := exec.Command("sh", append([]string{"-c", limited, *program}, args...)...)
	return &tool{servertest.StartProcess(t, cmd), strings.Join(args, " ")}
}

// judge waits until the tool has ended, and checks how.
func (p *tool) judge(t *testing.T, may ...int) {
	t.Helper()
	status, said := p.Wait(), p.Output()
	switch {
	case !slices.Contains(may, status), strings.Contains(said, "goroutine "), strings.Contains(said, "panic"):
		t.Errorf("%s: ended with status %d, and may with %v. It said:\n%s", p.name, status, may, said)
	case len(said) > mostOutput:
		t.Errorf("%s: said %d bytes:\n%s", p.name, len(said), said[:mostOutput])
	case status == 1 && strings.TrimSpace(said) == "":
		t.Errorf("%s: failed without a word", p.name)
	}
	t.Logf("%s: status %d\n%s", p.name, status, said)
}

// listen serves each connection with serve, on a goroutine of its own, until the test ends: see inert.
func listen(t *testing.T, serve func(c net.Conn)) (address string) {
	l, err := net.Listen("tcp", net.JoinHostPort(*host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	t.Cleanup(func() {
		close(ended)
		l.Close()
	})
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if serve == nil {
					<-ended
					return
				}
				serve(c)
			}()
		}
	}()
	return l.Addr().String()
}

func port(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}

// mountOf returns the address of a server's MOUNT service among those of the hostile servers.
func mountOf(t *testing.T, real *testserver.Server) (address string) {
	return listen(t, relayed(real.TCP.String(), record))
}

// benchOf starts a measurement of GETATTR at a server. mount is the address of MOUNT's service, over TCP.
func benchOf(t *testing.T, transport, version, address, mount string) *tool {
	return benchAt(t, soon, *host, transport, version, address, mount)
}

func benchAt(t *testing.T, timeout, host, transport, version, address, mount string) *tool {
	return start(t, "bench", "--transport", transport, "--rdma-provider", *provider, "--port", port(address), "--mount-port", port(mount), "--nfs", version,
		"--workload", "getattr", "--timeout", timeout, "--size", "512", "--file-size", "4K", "--depth", "4", "--duration", "200ms", host+":/x")
}

func probeOf(t *testing.T, transport, address string) *tool {
	return probeAt(t, soon, transport, address)
}

func probeAt(t *testing.T, timeout, transport, address string) *tool {
	return start(t, "probe", "--transport", transport, "--rdma-provider", *provider, "--timeout", timeout, address)
}

// A server that does not speak RPC or iWARP, or hardly.
func TestToolsOfServersThatAreNone(t *testing.T) {
	mount := mountOf(t, testserver.Start(t))
	for name, serve := range inert {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := listen(t, serve)
			for _, tool := range []*tool{
				probeOf(t, "tcp", address),
				probeOf(t, "rdma", address),
				benchOf(t, "tcp", "3", address, address),
				benchOf(t, "tcp", "4.1", address, address),
				benchOf(t, "rdma", "3", address, mount),
			} {
				tool.judge(t, 1)
			}
			behindARelay(t, soon, address, mount, 0, 1)
		})
	}
}

// A server that knows how to accept a connection over RDMA, but not RPC-over-RDMA.
func TestToolsOfRDMAServersThatAreNone(t *testing.T) {
	mount := mountOf(t, testserver.Start(t))
	for name, serve := range inertRDMA {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := listenRDMA(t, openProvider(t), serve)
			for _, tool := range toolsOverRDMA(t, soon, address, mount) {
				tool.judge(t, 1)
			}
			behindARelay(t, soon, address, mount, 0, 1)
		})
	}
}

var opened = sync.OnceValues(func() (providers.Provider, error) { return providers.Open(*provider, providers.Config{}) })

// openProvider returns the provider of the flag, by which the servers of all tools listen.
func openProvider(t *testing.T) rdmacm.Provider {
	p, err := opened()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// toolsOverRDMA starts the tools that connect to a server over RDMA.
func toolsOverRDMA(t *testing.T, timeout, address, mount string) []*tool {
	return []*tool{
		probeAt(t, timeout, "rdma", address),
		benchAt(t, timeout, *host, "rdma", "3", address, mount),
		benchAt(t, timeout, *host, "rdma", "4.1", address, mount),
	}
}

// A server whose replies over TCP are mangled, from the first one on, or after some.
func TestToolsOfMangledRepliesOverTCP(t *testing.T) {
	real := testserver.Start(t)
	real.ServeNFS4(t, time.Minute)
	each(t, mangled, func(t *testing.T, whole int, do mangling) {
		address := listen(t, func(c net.Conn) { relayed(real.TCP.String(), spoil(whole, do).records)(c) })
		for _, tool := range []*tool{
			probeOf(t, "tcp", address),
			benchOf(t, "tcp", "3", address, real.TCP.String()),
			benchOf(t, "tcp", "4.1", address, real.TCP.String()),
		} {
			tool.judge(t, 0, 1)
		}
	})
	t.Run("fragments of one octet", func(t *testing.T) {
		address := listen(t, relayed(real.TCP.String(), fragments))
		for _, tool := range []*tool{probeOf(t, "tcp", address), benchOf(t, "tcp", "3", address, address)} {
			tool.judge(t, 0, 1)
		}
	})
}

// wholes returns the numbers of replies of a connection that are not mangled: with NFSRDMAD_TEST_ALL several, one after
// the other.
func wholes() []int {
	if os.Getenv("NFSRDMAD_TEST_ALL") != "" {
		return []int{0, 1, 4, 12, 40, 100}
	}
	return []int{4}
}

func each(t *testing.T, manglings map[string]mangling, f func(t *testing.T, whole int, do mangling)) {
	for name, do := range manglings {
		for _, whole := range wholes() {
			t.Run(name+" after "+strconv.Itoa(whole), func(t *testing.T) {
				t.Parallel()
				f(t, whole, do)
			})
		}
	}
}

// The same over RDMA, where headers are mangled as well. A relay serves on beside it, and ends at SIGTERM.
func TestToolsOfMangledRepliesOverRDMA(t *testing.T) {
	real := testserver.Start(t)
	real.ServeNFS4(t, time.Minute)
	mount := mountOf(t, real)
	each(t, manglingsOfRDMA(), func(t *testing.T, whole int, do mangling) {
		address := listenRDMA(t, openProvider(t), spoiled(real.TCP.String(), func() *spoiler { return spoil(whole, do) }))
		for _, tool := range toolsOverRDMA(t, soon, address, mount) {
			tool.judge(t, 0, 1)
		}
		behindARelay(t, soon, address, mount, 0, 1)
	})
}

// The servers of mangled replies serve the tools as long as they mangle nothing. So the tools of the other tests meet what
// they are to meet, over the provider that the flag names.
func TestToolsOfWholeRepliesOverRDMA(t *testing.T) {
	real := testserver.Start(t)
	real.ServeNFS4(t, time.Minute)
	mount := mountOf(t, real)
	address := listenRDMA(t, openProvider(t), spoiled(real.TCP.String(), func() *spoiler { return spoil(math.MaxInt, nil) }))
	all := toolsOverRDMA(t, late, address, mount)
	for _, tool := range all {
		tool.judge(t, 0)
	}
	if said := all[0].Output(); !strings.Contains(said, "provider "+*provider) {
		t.Errorf("probe does not name the provider %q:\n%s", *provider, said)
	}
	behindARelay(t, late, address, mount, 0)
}

// behindARelay measures a server through a relay. The tools may end with these statuses. If they must succeed, the relay must
// take the server for one.
func behindARelay(t *testing.T, timeout, address, mount string, may ...int) {
	relay := start(t, "relay", "--listen", "127.0.0.1:0", "--rdma-provider", *provider, "--mount-port", port(mount), "--timeout", timeout, address)
	at, serves := relay.ready(t)
	if !serves {
		if !slices.Contains(may, 1) {
			t.Error("the relay does not serve")
		}
		relay.judge(t, 1)
		return
	}
	for _, tool := range []*tool{
		benchAt(t, timeout, "127.0.0.1", "tcp", "3", at, at),
		benchAt(t, timeout, "127.0.0.1", "tcp", "4.1", at, at),
		probeAt(t, timeout, "tcp", at),
	} {
		tool.judge(t, may...)
	}
	select {
	case <-relay.Done():
		t.Errorf("the relay has ended: %s", relay.Output())
	default:
		relay.Signal(syscall.SIGTERM)
		relay.judge(t, 0)
	}
}

// ready waits until a relay serves or has ended. It returns the address at which the relay serves.
func (p *tool) ready(t *testing.T) (at string, serves bool) {
	t.Helper()
	await.Until(t, "the relay serves or ends", func() bool {
		if _, said, ok := strings.Cut(p.Output(), "relaying "); ok {
			at, _, serves = strings.Cut(said, " to ")
			return serves
		}
		select {
		case <-p.Done():
			return true
		default:
			return false
		}
	})
	return at, serves
}
