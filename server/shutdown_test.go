package server_test

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/server/servertest"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest/stalled"
)

// Exit statuses of a daemon after a signal to end.
const (
	inOrder    = 0
	unfinished = 3
)

// shortDrain is drain_timeout in these tests.
const shortDrain = time.Second

// startShort starts a daemon with a short drain and several exports, by name.
func startShort(t *testing.T, state string, exports map[string]string, more ...string) *daemon {
	t.Helper()
	ip := ownLoopback()
	d := &daemon{tcp: servertest.FreePort(t, ip), rdma: servertest.FreePort(t, ip), state: state}
	return d.again(t, exports, more...)
}

// again starts a daemon with the same state directory and addresses.
func (d *daemon) again(t *testing.T, exports map[string]string, more ...string) *daemon {
	t.Helper()
	config := writeFile(t, "nfsrdmad.toml", fmt.Sprintf("drain_timeout = %q\nrpcbind = false\n%s\n", shortDrain, strings.Join(more, "\n")))
	args := []string{"serve", "--config", config, "--state-dir", d.state, "--tcp", d.tcp.String(), "--rdma", d.rdma.String()}
	for name, dir := range exports {
		args = append(args, "--export", dir+":"+name+",insecure,no_root_squash")
	}
	again := &daemon{Process: nfsrdmad(t, args...), tcp: d.tcp, rdma: d.rdma, state: d.state}
	again.AwaitLine("serving")
	return again
}

// ends sends a signal, waits until the daemon has ended, and checks its exit status. The status
// tells whether the daemon left something behind. TestEndingIsBoundedAndNamesUnfinishedSteps
// tests how long ending may take.
func ends(t *testing.T, p *servertest.Process, s syscall.Signal, status int) {
	t.Helper()
	p.Signal(s)
	if got := p.Wait(); got != status {
		t.Errorf("exit status %d, want %d:\n%s", got, status, p.Output())
	}
}

// says fails the test unless the daemon's output has a line that contains the text line, and the
// first such line contains all words.
func says(t *testing.T, p *servertest.Process, line string, words ...string) {
	t.Helper()
	for _, l := range strings.Split(p.Output(), "\n") {
		if !strings.Contains(l, line) {
			continue
		}
		for _, w := range words {
			if !strings.Contains(l, w) {
				t.Errorf("%q does not say %q", l, w)
			}
		}
		return
	}
	t.Errorf("there is no line %q:\n%s", line, p.Output())
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// A second signal ends the process at once, whatever the shutdown waits for.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(signal.String(), func(t *testing.T) {
			m := stalled.Mount(t)
			d := startShort(t, t.TempDir(), map[string]string{"/hangs": m.Dir}, "") // this daemon is replaced below
			d.Kill()
			config := writeFile(t, "nfsrdmad.toml", "drain_timeout = \"24h\"\nrpcbind = false\n")
			d.Process = nfsrdmad(t, "serve", "--config", config, "--state-dir", d.state, "--tcp", d.tcp.String(), "--rdma", "none", "--export", m.Dir+":/hangs,insecure,no_root_squash")
			d.AwaitLine("serving")
			c, err := servertest.DialTCP(testContext(t), d.tcp)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			h, err := c.Mount(testContext(t), "/hangs")
			if err != nil {
				t.Fatal(err)
			}
			m.Freeze()
			defer m.Thaw()
			ended := make(chan error, 1)
			c.Start(wire.ProcGetattr, &wire.Getattr3Args{Object: wire.FileHandle3{Data: h}}, nil, func(x *rpc.Exchange) { ended <- x.Err })
			awaitThreads(t, d.PID(), "fuse", 1)
			d.Signal(signal)
			d.AwaitLine("draining")
			d.Signal(signal)
			if status := d.Wait(); status != unfinished {
				t.Errorf("exit status %d, want %d:\n%s", status, unfinished, d.Output())
			}
			says(t, d.Process, "a second signal")
			if err := <-ended; err == nil {
				t.Error("the call was answered")
			}
		})
	}
}

// SIGHUP never ends a daemon, however often it comes. The last line in the log of a daemon says
// that it has stopped.
func TestHangupIsHarmless(t *testing.T) {
	d := start(t, "insecure")
	for range 3 {
		d.Signal(syscall.SIGHUP)
	}
	d.AwaitLine("configuration read again")
	for transport, c := range d.dialBoth(t) {
		if _, err := c.Mount(testContext(t), "/"); err != nil {
			t.Errorf("%s: %v", transport, err)
		}
	}
	d.Signal(syscall.SIGTERM)
	if status := d.Wait(); status != inOrder {
		t.Errorf("exit status %d:\n%s", status, d.Output())
	}
	lines := strings.Split(d.Output(), "\n")
	if last := lines[len(lines)-1]; !strings.Contains(last, "stopped") {
		t.Errorf("its last line is %q", last)
	}
}

// If a daemon's start hangs in a file system, a signal ends the daemon, and a log line names the
// step.
func TestStartThatHangsIsGivenUp(t *testing.T) {
	m := stalled.Mount(t)
	export := m.Dir // the daemon checks that the path is a directory before it handles signals
	m.StallAfter(requestsOfStat(t, m))
	defer m.LetGo()
	p := nfsrdmad(t, "serve", "--state-dir", t.TempDir(), "--tcp", "127.0.0.1:0", "--rdma", "none", "--export", export)
	m.AwaitHanging(1)
	p.Signal(syscall.SIGTERM)
	p.AwaitLine("did not finish")
	m.LetGo()
	if status := p.Wait(); status != unfinished {
		t.Errorf("exit status %d, want %d:\n%s", status, unfinished, p.Output())
	}
}

// requestsOfStat returns how many requests to the file system a stat of its root causes.
func requestsOfStat(t *testing.T, m *stalled.FileSystem) int {
	t.Helper()
	for n := 1; ; n++ {
		m.StallAfter(n)
		looked := make(chan error, 1)
		go func() {
			_, err := os.Stat(m.Dir)
			looked <- err
		}()
		hung := make(chan bool, 1)
		go func() {
			for m.Hanging() == 0 {
				select {
				case err := <-looked:
					looked <- err
					hung <- false
					return
				default:
				}
			}
			hung <- true
		}()
		again := <-hung
		m.LetGo()
		if err := <-looked; err != nil {
			t.Fatal(err)
		}
		if !again {
			return n
		}
	}
}

// Peers that stop in the middle of a message do not delay the daemon's end.
func TestEndsWhilePeersDoNotGoOn(t *testing.T) {
	raw := func(t *testing.T, addr netip.AddrPort, b []byte) {
		t.Helper()
		c, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(addr))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if _, err := c.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	// An iWARP MPA Request Frame without private data (RFC 5044 §7.1).
	request := append([]byte("MPA ID Req Frame"), 0x40, 1, 0, 0)
	for _, c := range []struct {
		name string
		does func(t *testing.T, d *daemon)
	}{
		{"silent", func(t *testing.T, d *daemon) { raw(t, d.tcp, nil); raw(t, d.rdma, nil) }},
		{"half a record", func(t *testing.T, d *daemon) { raw(t, d.tcp, []byte{0x80, 0, 1, 0, 1, 2, 3}) }},
		{"half a request to connect", func(t *testing.T, d *daemon) { raw(t, d.rdma, request[:10]) }},
		{"connected and nothing more", func(t *testing.T, d *daemon) { raw(t, d.rdma, request) }},
		{"half an FPDU", func(t *testing.T, d *daemon) { raw(t, d.rdma, append(request, 0, 100, 0x41)) }},
		{"does not read", func(t *testing.T, d *daemon) {
			for transport, addr := range map[string]netip.AddrPort{"tcp": d.tcp, "rdma": d.rdma} {
				deaf(t, transport, addr)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := startShort(t, t.TempDir(), map[string]string{"/": t.TempDir()})
			c.does(t, d)
			ends(t, d.Process, syscall.SIGTERM, inOrder)
		})
	}
}

// deaf connects a client that makes 64 READs of 1 MiB and does not read the replies.
func deaf(t *testing.T, transport string, addr netip.AddrPort) {
	t.Helper()
	const calls, size = 64, 1 << 20
	ctx := testContext(t)
	proxy := servertest.NewProxy(t, addr)
	dial := servertest.DialTCP
	if transport == "rdma" {
		dial = servertest.DialRDMA
	}
	c, err := dial(ctx, proxy.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	dir, err := c.Mount(ctx, "/")
	if err != nil {
		t.Fatal(err)
	}
	h, err := c.Create(ctx, dir, transport, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(ctx, h, 0, make([]byte, size), wire.FileSync); err != nil {
		t.Fatal(err)
	}
	proxy.Deafen()
	for range calls {
		c.Start(wire.ProcRead, &wire.Read3Args{FileHandle: wire.FileHandle3{Data: h}, Count: size}, make([]byte, size), func(*rpc.Exchange) {})
	}
}

// The daemon ends in time even if the reader of its log does not read.
func TestEndsWhileItsLogIsNotRead(t *testing.T) {
	ip := ownLoopback()
	tcp := servertest.FreePort(t, ip)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	config := writeFile(t, "nfsrdmad.toml", fmt.Sprintf("drain_timeout = %q\nrpcbind = false\n", shortDrain))
	cmd := exec.Command(binary(t), "serve", "--config", config, "--state-dir", t.TempDir(), "--tcp", tcp.String(), "--rdma", "none", "--export", t.TempDir()+":/,insecure")
	cmd.Stderr = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer cmd.Process.Kill()
	c, err := awaitServing(t, tcp)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	// Fill the pipe.
	raw, err := w.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) {
		_ = syscall.SetNonblock(int(fd), true)
		for b := make([]byte, 4096); len(b) > 0; {
			if n, _ := syscall.Write(int(fd), b); n < 0 {
				b = b[:len(b)/2]
			}
		}
		_ = syscall.SetNonblock(int(fd), false)
	}); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(hang):
		t.Fatal("it does not end")
	}
	if status := cmd.ProcessState.ExitCode(); status != unfinished {
		said, _ := io.ReadAll(io.LimitReader(r, 1<<10))
		t.Errorf("exit status %d, want %d:\n%s", status, unfinished, said)
	}
}

// awaitServing connects to the daemon as soon as it listens.
func awaitServing(t *testing.T, addr netip.AddrPort) (c *servertest.Client, err error) {
	t.Helper()
	ctx := testContext(t)
	await(t, ctx, "it listens", func() bool {
		c, err = servertest.DialTCP(ctx, addr)
		return err == nil
	})
	return c, c.Null(ctx)
}
