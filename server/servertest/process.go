package servertest

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// hang is the longest time that a test waits for an event before it fails.
const hang = time.Minute

// A Process runs a server under test, or a program that starts one.
type Process struct {
	t    testing.TB
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended and its output is complete
	err  error

	mu    sync.Mutex
	lines []string
	grown chan struct{} // closed and replaced when there is more output
}

// StartProcess starts a command and collects its output. At the end of the test it kills
// a process that still runs.
func StartProcess(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{t: t, cmd: cmd, done: make(chan struct{}), grown: make(chan struct{})}
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = cmd.Stderr
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			p.say(lines.Text())
		}
		p.err = cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(p.Kill)
	return p
}

func (p *Process) say(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines = append(p.lines, line)
	close(p.grown)
	p.grown = make(chan struct{})
}

// Output returns the process's output so far, from standard output and standard error.
func (p *Process) Output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines, "\n")
}

// PID returns the process ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends a signal to the process.
func (p *Process) Signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// Kill kills the process and waits for its end.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Done is closed when the process has ended and its output is complete.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for the end of the process and returns its exit status, or -1 if a signal
// ended it.
func (p *Process) Wait() int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(hang):
		p.t.Fatalf("the process does not end; it said:\n%s", p.Output())
	}
	return p.cmd.ProcessState.ExitCode()
}

// AwaitLine waits until the process prints a line that contains text, and returns the
// line.
func (p *Process) AwaitLine(text string) string {
	p.t.Helper()
	deadline := time.After(hang)
	for seen := 0; ; {
		p.mu.Lock()
		lines, grown := p.lines, p.grown
		p.mu.Unlock()
		for ; seen < len(lines); seen++ {
			if strings.Contains(lines[seen], text) {
				return lines[seen]
			}
		}
		select {
		case <-grown:
		case <-p.done:
			p.mu.Lock()
			complete := len(p.lines) == seen
			p.mu.Unlock()
			if complete {
				p.t.Fatalf("it ended (%v) without saying %q:\n%s", p.err, text, p.Output())
			}
		case <-deadline:
			p.t.Fatalf("it does not say %q:\n%s", text, p.Output())
		}
	}
}

// AwaitListener waits until an address accepts TCP connections.
func (p *Process) AwaitListener(addr netip.AddrPort) {
	p.t.Helper()
	p.await("tcp", addr.String())
}

// AwaitSocket waits until a Unix socket accepts connections.
func (p *Process) AwaitSocket(path string) {
	p.t.Helper()
	p.await("unix", path)
}

func (p *Process) await(network, address string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	retry := time.NewTicker(20 * time.Millisecond)
	defer retry.Stop()
	for {
		c, err := new(net.Dialer).DialContext(ctx, network, address)
		if err == nil {
			c.Close()
			return
		}
		if !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, syscall.ENOENT) {
			p.t.Fatal(err)
		}
		select {
		case <-retry.C:
		case <-p.done:
			p.t.Fatalf("it ended: %v\n%s", p.err, p.Output())
		case <-ctx.Done():
			p.t.Fatalf("nothing listens on %s:\n%s", address, p.Output())
		}
	}
}
