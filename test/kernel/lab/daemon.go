package lab

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Ports of the daemon in the lab.
const (
	PortRDMA = 20049
	PortTCP  = 2049
)

// startLimit and stopLimit are the longest times that a daemon may take to start and to end.
const (
	startLimit = 30 * time.Second
	stopLimit  = 60 * time.Second
)

// Daemon is a server program that runs on this machine inside a Network: nfsrdmad, or another
// server.
type Daemon struct {
	t       testing.TB
	network *Network
	name    string // in log messages
	command []string
	ports   []int
	process *process
	log     *console
}

// StartDaemon starts nfsrdmad in the network, on both transports, and waits until it listens. The
// parameter program is the path of the daemon, and export has the form of the flag --export.
// Further flags may follow. At the end of the test, StartDaemon sends SIGTERM to the daemon and
// fails the test unless the daemon exits with 0 and has printed no panic and no race report. If
// the test has failed, the test's log gets the daemon's output.
func StartDaemon(t testing.TB, n *Network, program, state, export string, flags ...string) *Daemon {
	t.Helper()
	return StartServer(t, n, "nfsrdmad", DaemonCommand(program, state, append([]string{"--export", export}, flags...)...), PortRDMA, PortTCP)
}

// DaemonCommand returns the command by which StartDaemon starts nfsrdmad. The caller passes the
// exports as flags, or a configuration file that names them.
func DaemonCommand(program, state string, flags ...string) []string {
	command := []string{
		// The daemon gets a /run of its own, without this machine's rpcbind. Otherwise the daemon
		// would find it, because rpcbind's socket below /run is reachable from every network
		// namespace.
		"unshare", "-m", "sh", "-c", `mount -t tmpfs run /run && exec "$@"`, "sh",
		program, "serve", "--state-dir", state,
		"--rdma", fmt.Sprintf("%s:%d", Host, PortRDMA), "--tcp", fmt.Sprintf("%s:%d", Host, PortTCP),
	}
	return append(command, flags...)
}

// BesideRpcbind returns a command of DaemonCommand that first starts rpcbind in the daemon's network. It goes on when
// the daemon ends, and ends with the network.
func BesideRpcbind(command []string) []string {
	command = slices.Clone(command)
	i := slices.IndexFunc(command, func(arg string) bool { return strings.HasPrefix(arg, "mount ") })
	command[i] = strings.Replace(command[i], "&&", "&& { rpcbind -i; true; } &&", 1)
	return command
}

// StartServer starts a server program in the network and waits until it listens on the TCP ports.
// The program ends with the test, as StartDaemon describes.
func StartServer(t testing.TB, n *Network, name string, command []string, ports ...int) *Daemon {
	t.Helper()
	d := &Daemon{t: t, network: n, name: name, command: command, ports: ports, log: newConsole()}
	t.Cleanup(func() {
		if d.process != nil {
			if err := d.end(); err != nil {
				t.Errorf("%s: %v", d.name, err)
			}
		}
		for _, sign := range []string{"panic: ", "DATA RACE", "fatal error: "} {
			if strings.Contains(d.log.text(), sign) {
				t.Errorf("the daemon printed %q", sign)
			}
		}
		if t.Failed() {
			t.Logf("%s printed:\n%s", d.name, d.log.text())
		}
	})
	d.Start()
	return d
}

// Start starts the daemon and waits until it listens. StartServer calls it first. After Stop or
// Kill a test may call it again; the command is the same.
func (d *Daemon) Start() {
	d.t.Helper()
	var err error
	if d.process, err = startProcess(d.network.Command(d.command[0], d.command[1:]...), d.log); err != nil {
		d.t.Fatal(err)
	}
	deadline := time.Now().Add(startLimit)
	for _, port := range d.ports {
		for !listens(d.process.id(), port) {
			if d.process.ended(20 * time.Millisecond) {
				d.t.Fatalf("%s ended at its start: %v", d.name, d.process.err)
			}
			if time.Now().After(deadline) {
				d.t.Fatalf("%s does not listen on port %d", d.name, port)
			}
		}
	}
}

// Stop ends the daemon by SIGTERM and fails the test unless it exits with 0.
func (d *Daemon) Stop() {
	d.t.Helper()
	if err := d.end(); err != nil {
		d.t.Fatalf("%s: %v", d.name, err)
	}
}

func (d *Daemon) end() error {
	err := d.process.terminate(stopLimit)
	d.process = nil
	return err
}

// Kill ends the daemon by SIGKILL.
func (d *Daemon) Kill() {
	d.process.kill()
	d.process = nil
}

// Signal sends a signal to the daemon.
func (d *Daemon) Signal(signal syscall.Signal) {
	d.t.Helper()
	if err := syscall.Kill(d.process.id(), signal); err != nil {
		d.t.Fatal(err)
	}
}

// Run runs a program of this machine in the daemon's mount namespace, and fails the test unless
// it succeeds.
func (d *Daemon) Run(command ...string) {
	d.t.Helper()
	inside := append([]string{"--mount", "--target", strconv.Itoa(d.process.id()), "--"}, command...)
	if out, err := exec.Command("nsenter", inside...).CombinedOutput(); err != nil {
		d.t.Fatalf("%q beside the daemon: %v\n%s", command, err, out)
	}
}

// Log returns the daemon's output so far.
func (d *Daemon) Log() string { return d.log.text() }

// PeakMemory returns the peak of the daemon's resident memory, in bytes.
func (d *Daemon) PeakMemory() int64 {
	d.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.process.id()))
	if err != nil {
		d.t.Fatal(err)
	}
	var kib int64
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, "VmHWM:"); found {
			fmt.Sscan(rest, &kib)
		}
	}
	if kib == 0 {
		d.t.Fatal("no VmHWM in the daemon's status")
	}
	return kib << 10
}

// AwaitLog waits until the daemon has printed the text. It ends the test if the daemon ends before
// that, or does not print the text within startLimit.
func (d *Daemon) AwaitLog(text string) {
	d.t.Helper()
	for deadline := time.Now().Add(startLimit); !strings.Contains(d.Log(), text); {
		if d.process.ended(20*time.Millisecond) || time.Now().After(deadline) {
			d.t.Fatalf("%s did not print %q", d.name, text)
		}
	}
}
