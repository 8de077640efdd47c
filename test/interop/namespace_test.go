//go:build interop

package interop

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// patience is the longest time that a test waits for an event.
const patience = 60 * time.Second

// A namespace is a network namespace with only a loopback device. Daemons run in it until the
// test ends.
type namespace struct {
	t    *testing.T
	name string
	dir  string
}

var serial atomic.Int32

func newNamespace(t *testing.T) *namespace {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	n := &namespace{t: t, name: fmt.Sprintf("nfsrdmad-%d-%d", os.Getpid(), serial.Add(1)), dir: t.TempDir()}
	// The user that the client claims to be must be able to enter the directory, because the
	// daemon acts as that user.
	if err := os.Chmod(n.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	n.host("ip", "netns", "add", n.name)
	t.Cleanup(func() { n.host("ip", "netns", "delete", n.name) })
	n.host("ip", "-n", n.name, "link", "set", "lo", "up")
	return n
}

func (n *namespace) host(name string, args ...string) {
	n.t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		n.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// command returns a program that runs in the namespace. It has its own /run, so that it finds
// only the namespace's rpcbind.
func (n *namespace) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	inside := append([]string{
		"netns", "exec", n.name, "unshare", "-m", "sh", "-c", `mount -t tmpfs tmpfs /run && exec "$@"`, "sh", name,
	}, args...)
	c := exec.CommandContext(ctx, "ip", inside...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return c
}

// run runs a program, which must succeed, and returns its output.
func (n *namespace) run(name string, args ...string) string {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), 2*patience)
	defer cancel()
	out, err := n.command(ctx, name, args...).CombinedOutput()
	if err != nil {
		n.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// A log stores a daemon's output.
type log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// start runs a daemon until the test ends. It returns when the daemon listens on port.
func (n *namespace) start(port int, name string, args ...string) {
	n.t.Helper()
	c := n.command(context.Background(), name, args...)
	out := new(log)
	c.Stdout, c.Stderr = out, out
	if err := c.Start(); err != nil {
		n.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	n.t.Cleanup(func() {
		syscall.Kill(-c.Process.Pid, syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
			<-ended
		}
		if n.t.Failed() {
			n.t.Logf("%s:\n%s", filepath.Base(name), out)
		}
	})
	deadline := time.Now().Add(patience)
	for !n.listens(port) {
		select {
		case err := <-ended:
			ended <- err
			n.t.Fatalf("%s ended: %v\n%s", name, err, out)
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			n.t.Fatalf("%s does not listen on port %d\n%s", name, port, out)
		}
	}
}

// listens reports whether a program listens on a TCP port of the namespace.
func (n *namespace) listens(port int) bool {
	out, err := exec.Command("ip", "netns", "exec", n.name, "ss", "-Hltn", fmt.Sprintf("sport = :%d", port)).Output()
	return err == nil && len(bytes.TrimSpace(out)) > 0
}
