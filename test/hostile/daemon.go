package hostile

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/server/servertest"
)

const (
	kib = 1 << 10
	mib = 1 << 20
)

// Drain is the drain_timeout of daemons under test.
const Drain = time.Second

// A Config says how a daemon under test is run.
type Config struct {
	// Ceiling is of its payload memory, in MiB; 0 is 64.
	Ceiling int
	// Limits are further lines of its configuration's [limits], and Memory of its [memory].
	Limits, Memory string
	// NFS are further lines of its configuration's [nfs], and State its state directory;
	// empty: one of its own.
	NFS, State string
	// Descriptors is its RLIMIT_NOFILE; 0 is the test's own.
	Descriptors int
	// FileBlocks is its RLIMIT_FSIZE in blocks of 512 bytes; 0 is the test's own.
	FileBlocks int
	// Stalling is how many further exports there are on file systems that can
	// be made to stall. Remembered: the kernel knows their attributes and
	// listings by heart, and only names and data stall.
	Stalling   int
	Remembered bool
	// Without are capabilities that it does not have, as setpriv(1) names
	// them.
	Without []string
	// Environment are variables that the daemon has beside the test's own.
	Environment []string
	// IPv6: the daemon has an address of Network6.
	IPv6 bool
	// Files is how many empty files beside the others the open export has, for
	// every user to write.
	Files int
}

// A Daemon is the program under test, as a process of its own.
type Daemon struct {
	*servertest.Process
	t         testing.TB
	TCP, RDMA netip.AddrPort
	// Ceiling is in bytes.
	Ceiling int
	// killed says why the test killed it.
	killed atomic.Pointer[string]
}

// An exported directory, for a daemon's configuration.
type exported struct{ path, name, options string }

// startDaemon starts program on an address of its own and waits until it serves.
func startDaemon(t testing.TB, program string, cfg Config, exports []exported) *Daemon {
	t.Helper()
	d := launch(t, program, cfg, exports)
	d.AwaitLine("serving")
	return d
}

// launch starts program on an address of its own.
func launch(t testing.TB, program string, cfg Config, exports []exported) *Daemon {
	t.Helper()
	if cfg.Ceiling == 0 {
		cfg.Ceiling = 64
	}
	ip := netip.AddrFrom4([4]byte{127, byte(1 + rand.IntN(99)), byte(rand.IntN(250)), byte(2 + rand.IntN(250))})
	if cfg.IPv6 {
		ip = daemon6(byte(1+rand.IntN(99)), byte(rand.IntN(250)))
	}
	d := &Daemon{t: t,
		TCP: freePort(t, ip), RDMA: freePort(t, ip),
		Ceiling: cfg.Ceiling * mib,
	}
	dir := t.TempDir()
	if cfg.State == "" {
		cfg.State = filepath.Join(dir, "state")
	}
	var text strings.Builder
	fmt.Fprintf(&text, `
rdma = [%q]
tcp = [%q]
state_dir = %q
rpcbind = false
drain_timeout = %q
[memory]
ceiling = "%dM"
%s
[limits]
%s
[nfs]
%s
`, d.RDMA, d.TCP, cfg.State, Drain, cfg.Ceiling, cfg.Memory, cfg.Limits, cfg.NFS)
	for _, e := range exports {
		fmt.Fprintf(&text, "[[export]]\npath = %q\nname = %q\noptions = %q\n", e.path, e.name, e.options)
	}
	config := filepath.Join(dir, "nfsrdmad.toml")
	if err := os.WriteFile(config, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{program, "serve", "--config", config}
	if len(cfg.Without) > 0 {
		none := "-" + strings.Join(cfg.Without, ",-")
		args = append([]string{"setpriv", "--bounding-set", none, "--inh-caps", none}, args...)
	}
	if cfg.Descriptors > 0 {
		args = append([]string{"sh", "-c", `ulimit -n "$1"; shift; exec "$@"`, "sh", strconv.Itoa(cfg.Descriptors)}, args...)
	}
	if cfg.FileBlocks > 0 {
		args = append([]string{"sh", "-c", `ulimit -f "$1"; shift; exec "$@"`, "sh", strconv.Itoa(cfg.FileBlocks)}, args...)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Env = append(os.Environ(), cfg.Environment...)
	d.Process = servertest.StartProcess(t, cmd)
	return d
}

// freePort is a port of an address that nothing listens on.
func freePort(t testing.TB, ip netip.Addr) netip.AddrPort {
	t.Helper()
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(ip, 0)))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).AddrPort()
}

// Resident and Peak are the daemon's resident memory now and at most so far, in
// bytes; 0 if it has ended.
func (d *Daemon) Resident() int { return d.status("VmRSS:") }
func (d *Daemon) Peak() int     { return d.status("VmHWM:") }

func (d *Daemon) status(key string) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.PID()))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if value, found := strings.CutPrefix(line, key); found {
			n, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
			return n * kib
		}
	}
	return 0
}

// Descriptors is how many the daemon has open; 0 if it has ended.
func (d *Daemon) Descriptors() int {
	all, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", d.PID()))
	if err != nil {
		return 0
	}
	return len(all)
}

// Alive says whether the daemon has not ended.
func (d *Daemon) Alive() bool {
	select {
	case <-d.Done():
		return false
	default:
		return true
	}
}

// killBeyond kills the daemon when it takes more than limit bytes, so that what
// it takes too much does not harm the machine. It stops with the daemon.
func (d *Daemon) killBeyond(limit int) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if n := d.Resident(); n > limit {
				why := fmt.Sprintf("killed by the test, for it took %d MiB", n/mib)
				d.killed.Store(&why)
				d.Kill()
				return
			}
		case <-d.Done():
			return
		}
	}
}

// why says how the daemon ended.
func (d *Daemon) why() string {
	if why := d.killed.Load(); why != nil {
		return *why
	}
	return "by itself"
}
