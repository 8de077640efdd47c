package lab

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Options describe a guest. The comments name the default for each zero value.
type Options struct {
	Kernel   Kernel        // default: Usual
	Memory   int           // MiB; default: 1000
	CPUs     int           // of a stock kernel; default: 2. A user-mode kernel has one.
	Address  int           // last byte of the address, so that a guest can boot again with the same address; default: the next free one
	Writable []string      // folders of this machine that the guest may write to, at the same path
	Env      []string      // variables for the script, as NAME=value
	Systemd  Systemd       // becomes process 1, and runs the script as a service; only with a stock kernel; default: none
	Limit    time.Duration // longest duration of the run; default: 5 minutes
}

// Guest is a booted kernel that runs one script and powers off.
type Guest struct {
	t       testing.TB
	network *Network
	options Options
	folder  string // shared with the guest: boot scripts, status, signals
	console *console
	process *process
	limit   *time.Timer
	expired chan struct{}
}

//go:embed prelude.sh
var prelude string

// Boot starts a guest in the network and returns at once. The guest runs the script (its text)
// under bash, as root, after the functions of prelude.sh. $SERVER has this machine's address, and
// $ADDRESS the guest's own. The guest ends with the test at the latest. If the test has failed by
// then, its log gets the guest's output.
func Boot(t testing.TB, n *Network, options Options, script string, args ...string) *Guest {
	t.Helper()
	if options.Kernel == "" {
		options.Kernel = Usual()
	}
	if !options.Kernel.userMode() && Usual() != UserMode {
		t.Skipf("with NFSRDMAD_LAB_KERNEL=%s, guests with other kernels do not run again", Usual())
	}
	if !options.Kernel.Ready() {
		t.Fatalf("kernel %s is not set up: run go run ./test/kernel/setup %s", options.Kernel, options.Kernel)
	}
	if options.Systemd != "" && options.Kernel.userMode() {
		t.Fatal("systemd needs control groups, which the user-mode kernel does not have")
	}
	if options.Systemd != "" && !options.Systemd.Ready() {
		t.Fatalf("%s is not set up: run go run ./test/kernel/setup %[1]s", options.Systemd)
	}
	if options.Kernel.userMode() && !UserModeRuns() {
		t.Skip("Linux in user mode does not run on this processor, which has more registers than it has room for; the stock kernels under emulation do")
	}
	if options.Memory == 0 {
		options.Memory = 1000
	}
	if options.CPUs == 0 {
		options.CPUs = 2
	}
	if options.Limit == 0 {
		options.Limit = 5 * time.Minute
	}
	options.Address = n.attach(options.Address)
	g := &Guest{t: t, network: n, options: options, folder: Folder(t, "guest"), console: newConsole(), expired: make(chan struct{})}
	files := g.scripts(args)
	files["prelude"], files["script"] = prelude, script
	if options.Kernel.userMode() {
		files["init"] = g.userModeInit()
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(g.folder, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	command := g.userModeCommand
	if !options.Kernel.userMode() {
		command = g.stockCommand
	}
	var err error
	if g.process, err = startProcess(command(), g.console); err != nil {
		t.Fatal(err)
	}
	g.limit = time.AfterFunc(options.Limit, func() {
		close(g.expired)
		g.process.kill()
	})
	t.Cleanup(func() {
		g.Kill()
		if t.Failed() {
			t.Logf("guest %s (%s) printed:\n%s", g.Address(), options.Kernel, g.console.text())
		}
	})
	return g
}

// Run boots a guest, waits until it ends, and returns its output. It fails the test unless the
// script succeeded.
func Run(t testing.TB, n *Network, options Options, script string, args ...string) string {
	t.Helper()
	return Boot(t, n, options, script, args...).Succeed()
}

// Address returns the guest's address in its network.
func (g *Guest) Address() string { return fmt.Sprintf("10.0.2.%d", g.options.Address) }

// Number returns the last byte of Address, which Options and Network.Cut use.
func (g *Guest) Number() int { return g.options.Address }

// Output returns the guest's output so far.
func (g *Guest) Output() string { return g.console.text() }

// Wait waits until the guest has ended and returns the script's exit status. It ends the test if
// there is no status, because the guest ran longer than its limit, crashed or was killed.
func (g *Guest) Wait() int {
	g.t.Helper()
	<-g.process.done
	g.limit.Stop()
	select {
	case <-g.expired:
		g.t.Fatalf("guest %s did not end within %s", g.Address(), g.options.Limit)
	default:
	}
	text, err := os.ReadFile(filepath.Join(g.folder, "status"))
	if err != nil {
		g.t.Fatalf("guest %s ended before its script did", g.Address())
	}
	status, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		g.t.Fatalf("guest %s: exit status: %v", g.Address(), err)
	}
	return status
}

// Succeed waits until the guest has ended and returns its output. It fails the test unless the
// script exited with 0.
func (g *Guest) Succeed() string {
	g.t.Helper()
	if status := g.Wait(); status != 0 {
		g.t.Fatalf("the script in guest %s exited with %d", g.Address(), status)
	}
	return g.Output()
}

// Await waits until the script executes "event NAME". It ends the test if the guest ends before
// that.
func (g *Guest) Await(event string) {
	g.t.Helper()
	if g.Happens(event) {
		return
	}
	select {
	case <-g.expired:
		g.t.Fatalf("guest %s did not come to %q within %s", g.Address(), event, g.options.Limit)
	default:
		g.t.Fatalf("guest %s ended before it came to %q", g.Address(), event)
	}
}

// Happens waits until the script executes "event NAME" or the guest ends, and reports whether the
// event happened.
func (g *Guest) Happens(event string) bool {
	happened := g.console.event(event)
	select {
	case <-happened:
		return true
	case <-g.process.done:
	}
	// The event and the end of the guest may have happened at the same time, so test again.
	select {
	case <-happened:
		return true
	default:
		return false
	}
}

// Signal ends the wait of the script's command "await NAME".
func (g *Guest) Signal(name string) {
	g.t.Helper()
	if err := os.WriteFile(filepath.Join(g.folder, "signal."+name), nil, 0o644); err != nil {
		g.t.Fatal(err)
	}
}

// Kill ends the guest at once, like a power cut: data that the guest had not written to its disk
// is lost.
func (g *Guest) Kill() {
	g.limit.Stop()
	g.process.kill()
}

// Ended reports whether the guest has ended, for any reason.
func (g *Guest) Ended() bool {
	select {
	case <-g.process.done:
		return true
	default:
		return false
	}
}

// Shared returns the path on this machine of the file that the script calls $SHARED/NAME.
func (g *Guest) Shared(name string) string { return filepath.Join(g.folder, name) }
