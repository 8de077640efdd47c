package hostile

import (
	"fmt"
	"math/rand/v2"
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

// A Config is the configuration of a daemon under test.
type Config struct {
	// Ceiling is the limit on its payload memory, in MiB; 0 means 64 MiB.
	Ceiling int
	// Limits has further lines for the section [limits] of its configuration, Memory for
	// [memory].
	Limits, Memory string
	// NFS has further lines for the section [nfs] of its configuration. State is its state
	// directory; if empty, launch makes one.
	NFS, State string
	// Descriptors is the daemon's RLIMIT_NOFILE; 0 means the limit of the test process.
	Descriptors int
	// FileBlocks is the daemon's RLIMIT_FSIZE in blocks of 512 bytes; 0 means the limit of the
	// test process.
	FileBlocks int
	// Stalling is the number of further exports on file systems that can be made to stall. If
	// Remembered is true, the kernel caches the attributes and listings of these file systems, so
	// that only look-ups of names and accesses to data stall.
	Stalling   int
	Remembered bool
	// Without lists the capabilities that are taken from the daemon, as setpriv(1) names them.
	Without []string
	// Environment has variables in addition to those of the test process.
	Environment []string
	// IPv6 is true if the daemon listens on an address of Network6.
	IPv6 bool
	// Files is the number of additional empty files in the open export. Every user may write
	// them.
	Files int
	// Names is the number of names in the directory "many" of the open export; 0 means manyNames.
	Names int
	// Disk is an empty directory for the open export; if empty, NewStage makes one.
	Disk string
}

// A Daemon is a process of the program under test.
type Daemon struct {
	*servertest.Process
	t         testing.TB
	TCP, RDMA netip.AddrPort
	// Ceiling is the limit on its payload memory, in bytes.
	Ceiling int
	// killed is the reason why the test killed the daemon, or nil.
	killed atomic.Pointer[string]
}

// An exported is one export in a daemon's configuration.
type exported struct{ path, name, options string }

// startDaemon starts the given program on a random loopback address, and waits until it serves.
func startDaemon(t testing.TB, program string, cfg Config, exports []exported) *Daemon {
	t.Helper()
	d := launch(t, program, cfg, exports)
	d.AwaitLine("serving")
	return d
}

// launch starts the given program on a random loopback address, and does not wait until it serves.
func launch(t testing.TB, program string, cfg Config, exports []exported) *Daemon {
	t.Helper()
	if cfg.Ceiling == 0 {
		cfg.Ceiling = 64
	}
	if !strings.Contains(cfg.Memory, "state =") {
		cfg.Memory += fmt.Sprintf("\nstate = \"%dM\"", cfg.Ceiling) // little, so that peers use it up soon
	}
	ip := netip.AddrFrom4([4]byte{127, byte(1 + rand.IntN(99)), byte(rand.IntN(250)), byte(2 + rand.IntN(250))})
	if cfg.IPv6 {
		ip = daemon6(byte(1+rand.IntN(99)), byte(rand.IntN(250)))
	}
	d := &Daemon{t: t,
		TCP: servertest.FreePort(t, ip), RDMA: servertest.FreePort(t, ip),
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

// Resident and Peak return the daemon's resident memory in bytes: the present size and the
// largest size so far. They return 0 if the daemon has ended.
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

// Descriptors returns the number of descriptors that the daemon has open, or 0 if it has ended.
func (d *Daemon) Descriptors() int {
	all, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", d.PID()))
	if err != nil {
		return 0
	}
	return len(all)
}

// Alive reports whether the daemon still runs.
func (d *Daemon) Alive() bool {
	select {
	case <-d.Done():
		return false
	default:
		return true
	}
}

// killBeyond kills the daemon if its memory exceeds `limit` bytes, so that it does not harm the
// machine. It returns when the daemon ends.
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

// why says whether the daemon ended by itself, or why the test killed it.
func (d *Daemon) why() string {
	if why := d.killed.Load(); why != nil {
		return *why
	}
	return "by itself"
}
