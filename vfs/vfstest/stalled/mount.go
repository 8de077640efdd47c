package stalled

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// patience is the time limit for steps that normally take milliseconds.
const patience = 30 * time.Second

// A FileSystem is a mounted FUSE file system that hangs on demand. The end of the test unmounts
// it.
type FileSystem struct {
	// Dir is the mount point. Backing is the directory whose files the file system shows. Changes
	// in Backing are visible in Dir. Calls in Backing never hang.
	Dir, Backing string

	t      testing.TB
	server *os.Process

	mu       sync.Mutex
	commands io.Writer
	answers  *bufio.Reader
}

// Mount mounts a file system that shows an empty directory. It skips the test if the machine does
// not allow that.
func Mount(t testing.TB) *FileSystem {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting FUSE takes user 0")
	}
	if unix.Access("/dev/fuse", unix.R_OK|unix.W_OK) != nil {
		t.Skip("this machine has no /dev/fuse")
	}
	m := &FileSystem{t: t, Dir: t.TempDir(), Backing: t.TempDir()}
	// Use a tmpfs, because a disk would add delays of its own.
	if err := unix.Mount("stalled", m.Backing, "tmpfs", 0, ""); err != nil {
		t.Skipf("a tmpfs cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(m.Backing, unix.MNT_DETACH) })
	if err := m.serve(); err != nil {
		t.Skipf("FUSE cannot be mounted here: %v", err)
	}
	return m
}

// Show mounts at dir a FUSE file system that shows the directory backing. A process of its own serves it
// with go-fuse until it is unmounted. The end of the test unmounts it.
func Show(t testing.TB, backing, dir string) error {
	t.Helper()
	m := &FileSystem{t: t, Dir: dir, Backing: backing}
	return m.serve()
}

// serve starts the serving process.
func (m *FileSystem) serve() error {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), backingVar+"="+m.Backing, mountpointVar+"="+m.Dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var said bytes.Buffer
	cmd.Stderr = &said
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	ended, err := startTied(cmd)
	if err != nil {
		return err
	}
	m.server, m.commands, m.answers = cmd.Process, in, bufio.NewReader(out)
	m.t.Cleanup(func() {
		// Once the serving process is dead, system calls that hang in this file system fail.
		m.server.Kill()
		<-ended
		unix.Unmount(m.Dir, unix.MNT_DETACH)
	})
	if _, err := m.answer(); err != nil {
		m.server.Kill()
		<-ended
		return errors.New(said.String())
	}
	return nil
}

// startTied starts a command with Pdeathsig. The kernel sends that signal when the thread that
// started the process ends. So startTied keeps the thread until the process has ended, and then
// closes ended.
func startTied(cmd *exec.Cmd) (ended <-chan struct{}, err error) {
	started, done := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(done)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
	}()
	return done, <-started
}

func (m *FileSystem) answer() (n int, err error) {
	line, err := m.answers.ReadString('\n')
	if err == nil {
		_, err = fmt.Sscan(line, &n)
	}
	return n, err
}

func (m *FileSystem) command(format string, args ...any) int {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	_, err := fmt.Fprintf(m.commands, format+"\n", args...)
	n := 0
	if err == nil {
		n, err = m.answer()
	}
	if err != nil {
		m.t.Fatalf("the process that serves %s: %v", m.Dir, err)
	}
	return n
}

// Stall makes all later requests hang (see StallAfter), until LetGo or the end of the test.
func (m *FileSystem) Stall() { m.StallAfter(0) }

// StallAfter serves n more requests and makes all later ones hang. A request is a message
// from the kernel to the serving process: one operation causes none, one or several.
func (m *FileSystem) StallAfter(n int) {
	m.t.Helper()
	m.command("%s %d", stallCommand, n)
}

// LetGo ends Stall and StallAfter: all operations continue.
func (m *FileSystem) LetGo() {
	m.t.Helper()
	m.command(openCommand)
}

// FailAfter serves n more requests, and answers the one after them with errno instead. Later requests are
// served.
func (m *FileSystem) FailAfter(n int, errno syscall.Errno) {
	m.t.Helper()
	m.command("%s %d %d", failCommand, n, int(errno))
}

// Failed ends FailAfter, and reports whether the request that was to fail has come.
func (m *FileSystem) Failed() bool {
	m.t.Helper()
	return m.command("%s 0 0", failCommand) == 0
}

// Freeze stops the serving process, so that it does not even read requests. An operation that
// hangs on an unread request ends if its process is killed. An operation that hangs after Stall
// does not, because the kernel waits for the answer. Call Thaw before any other method of m.
func (m *FileSystem) Freeze() {
	m.t.Helper()
	m.signal(syscall.SIGSTOP)
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	limit := time.After(patience)
	for !m.stopped() {
		select {
		case <-again.C:
		case <-limit:
			m.t.Fatal("the serving process does not stop")
		}
	}
}

// stopped reports whether every thread of the serving process has stopped
// (proc_pid_stat(5)).
func (m *FileSystem) stopped() bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", m.server.Pid))
	for _, f := range threads {
		b, err := os.ReadFile(f)
		_, state, found := strings.Cut(string(b), ") ")
		if err == nil && (!found || state[0] != 'T') {
			return false
		}
	}
	return len(threads) > 0
}

// Thaw lets the serving process continue after Freeze.
func (m *FileSystem) Thaw() { m.signal(syscall.SIGCONT) }

func (m *FileSystem) signal(s syscall.Signal) {
	m.t.Helper()
	if err := m.server.Signal(s); err != nil {
		m.t.Fatal(err)
	}
}

// Hanging returns the number of requests that wait in the serving process.
func (m *FileSystem) Hanging() int {
	m.t.Helper()
	return m.command(waitingCommand)
}

// AwaitHanging waits until at least n requests hang. It fails the test if that takes longer than
// patience.
func (m *FileSystem) AwaitHanging(n int) {
	m.t.Helper()
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	limit := time.After(patience)
	for m.Hanging() < n {
		select {
		case <-again.C:
		case <-limit:
			m.t.Fatalf("%d requests hang, not %d", m.Hanging(), n)
		}
	}
}
