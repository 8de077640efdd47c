package stalled

import (
	"bufio"
	"bytes"
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

// patience is how long a test waits for what takes milliseconds.
const patience = 30 * time.Second

// A FileSystem is a mounted file system that can be made to hang. It is unmounted
// when the test ends.
type FileSystem struct {
	// Dir is where it is mounted. Backing is the directory that it shows:
	// what is done there is seen in Dir, and never hangs.
	Dir, Backing string

	t      testing.TB
	server *os.Process

	mu       sync.Mutex
	commands io.Writer
	answers  *bufio.Reader
}

// Mount mounts a file system that shows an empty directory. It skips the test
// where that cannot be done.
func Mount(t testing.TB) *FileSystem {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting FUSE takes user 0")
	}
	if unix.Access("/dev/fuse", unix.R_OK|unix.W_OK) != nil {
		t.Skip("this machine has no /dev/fuse")
	}
	m := &FileSystem{t: t, Dir: t.TempDir(), Backing: t.TempDir()}
	// In memory: what is slow about a disk is not wanted here.
	if err := unix.Mount("stalled", m.Backing, "tmpfs", 0, ""); err != nil {
		t.Skipf("a tmpfs cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(m.Backing, unix.MNT_DETACH) })
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), backingVar+"="+m.Backing, mountpointVar+"="+m.Dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var said bytes.Buffer
	cmd.Stderr = &said
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	ended, err := startTied(cmd)
	if err != nil {
		t.Fatal(err)
	}
	m.server, m.commands, m.answers = cmd.Process, in, bufio.NewReader(out)
	t.Cleanup(func() {
		// System calls that hang in this file system fail from here on.
		m.server.Kill()
		<-ended
		unix.Unmount(m.Dir, unix.MNT_DETACH)
	})
	if _, err := m.answer(); err != nil {
		m.server.Kill()
		<-ended
		t.Skipf("FUSE cannot be mounted here: %s", said.String())
	}
	return m
}

// startTied starts a command with Pdeathsig. That signal comes when the thread
// that started the process ends: the thread is kept until the process has ended,
// which closes the channel.
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

// Stall makes every operation hang that begins from now on, until LetGo or the
// test's end.
func (m *FileSystem) Stall() { m.StallAfter(0) }

// StallAfter serves n requests and makes all others hang. A request is what the
// kernel asks the serving process: an operation makes none, one or several.
func (m *FileSystem) StallAfter(n int) {
	m.t.Helper()
	m.command("%s %d", stallCommand, n)
}

// LetGo lets all operations go on.
func (m *FileSystem) LetGo() {
	m.t.Helper()
	m.command(openCommand)
}

// Freeze stops the serving process: requests are not even read from now on. What
// hangs then ends with its process, unlike what hangs after Stall, which the
// kernel lets wait for its answer whatever happens. Thaw must follow before
// anything else is asked of m.
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

// stopped: each thread of the serving process has stopped (proc_pid_stat(5)).
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

// Thaw takes Freeze back.
func (m *FileSystem) Thaw() { m.signal(syscall.SIGCONT) }

func (m *FileSystem) signal(s syscall.Signal) {
	m.t.Helper()
	if err := m.server.Signal(s); err != nil {
		m.t.Fatal(err)
	}
}

// Hanging is how many requests hang.
func (m *FileSystem) Hanging() int {
	m.t.Helper()
	return m.command(waitingCommand)
}

// AwaitHanging returns when n requests hang.
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
