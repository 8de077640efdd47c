package lab

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

//go:embed systemd_root.sh
var systemdRoot string

//go:embed machine_init.sh
var machineInit string

// A Machine runs systemd as process 1 of namespaces of its own, on this machine's kernel, inside a
// Network. Its root is this machine's root, or another directory, below an overlay in memory, without the
// units that are enabled there. Its processes have the rights of root on this kernel, except that they cannot load
// modules or set the clock.
type Machine struct {
	t       testing.TB
	process *process
	console *console
}

// bootLimit is the longest time that systemd may take to boot.
const bootLimit = time.Minute

// BootMachine boots a Machine with this version of systemd and waits until systemd has started all
// units. The folders are bound into the machine at the same paths. The machine ends with the test.
// If the test has failed by then, its log gets the machine's journal.
func BootMachine(t testing.TB, n *Network, version Systemd, folders ...string) *Machine {
	t.Helper()
	if !version.Ready() {
		t.Fatalf("%s is not set up: run go run ./test/kernel/setup %[1]s", version)
	}
	return bootMachine(t, n, "/", version.debs(), folders)
}

// BootMachineIn is BootMachine for a directory with the files of an installation, and for the systemd that is
// installed there.
func BootMachineIn(t testing.TB, n *Network, root string, folders ...string) *Machine {
	t.Helper()
	return bootMachine(t, n, root, "", folders)
}

func bootMachine(t testing.TB, n *Network, root, debs string, folders []string) *Machine {
	t.Helper()
	group, err := newGroup(n.name)
	if err != nil {
		t.Fatal(err)
	}
	defer group.Close()
	cmd := n.Command("bash", append([]string{"-c", systemdRoot + machineInit, "machine_init"}, folders...)...)
	cmd.Env = append(os.Environ(), "ROOT="+root, "DEBS="+debs)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
		UseCgroupFD: true,
		CgroupFD:    int(group.Fd()),
	}
	m := &Machine{t: t, console: newConsole()}
	if m.process, err = startProcess(cmd, m.console); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			journal, _ := m.Try("journalctl", "--no-pager", "--output=short-monotonic")
			t.Logf("systemd printed:\n%s\nits journal:\n%s", m.console.text(), journal)
		}
		m.process.kill()
	})
	for deadline := time.Now().Add(bootLimit); ; {
		if _, err := os.Stat(m.Path("/run/systemd/private")); err == nil {
			break
		}
		if m.process.ended(20*time.Millisecond) || time.Now().After(deadline) {
			t.Fatalf("systemd did not boot:\n%s", m.console.text())
		}
	}
	// A unit of this machine that fails in namespaces makes systemd "degraded", which does not matter.
	state, _ := m.Try("systemctl", "is-system-running", "--wait")
	if state = strings.TrimSpace(state); state != "running" && state != "degraded" {
		t.Fatalf("systemd is %s after its boot", state)
	}
	return m
}

// Path returns the path on this machine of a file of the Machine.
func (m *Machine) Path(inside string) string {
	return filepath.Join("/proc", fmt.Sprint(m.process.id()), "root", inside)
}

// Command returns a command that runs a program of the Machine in its namespaces, as root.
func (m *Machine) Command(name string, args ...string) *exec.Cmd {
	inside := []string{"--all", "--target", fmt.Sprint(m.process.id()),
		"env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C", "SYSTEMD_COLORS=0", name}
	return exec.Command("nsenter", append(inside, args...)...)
}

// Try runs a program of the Machine and returns its output.
func (m *Machine) Try(name string, args ...string) (string, error) {
	out, err := m.Command(name, args...).CombinedOutput()
	return string(out), err
}

// Run runs a program of the Machine, returns its output, and fails the test unless it succeeds.
func (m *Machine) Run(name string, args ...string) string {
	m.t.Helper()
	out, err := m.Try(name, args...)
	if err != nil {
		m.t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return out
}

// Write writes a file of the Machine.
func (m *Machine) Write(inside, text string) {
	m.t.Helper()
	path := m.Path(inside)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		m.t.Fatal(err)
	}
}
