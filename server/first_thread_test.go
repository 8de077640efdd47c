package server_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest/stalled"
)

// SIGTERM comes while the largest possible number of the daemon's threads wait for a file
// system that hangs. The kernel delivers the signal to the process's first thread, which
// must not be one of them.
func TestEndIsHeardWhileManyThreadsHang(t *testing.T) {
	m := stalled.Mount(t)
	defer m.LetGo()
	d := startShort(t, t.TempDir(), map[string]string{"/hangs": m.Dir})
	h, err := d.dialBoth(t)["tcp"].Mount(testContext(t), "/hangs")
	if err != nil {
		t.Fatal(err)
	}
	m.Stall()
	const most = 64
	hangs(t, d, m, "tcp", h, most)
	awaitThreads(t, d.PID(), "fuse", most)
	stack, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/stack", d.PID()))
	if err != nil || strings.Contains(string(stack), "] fuse") {
		t.Errorf("the first thread waits here: %v\n%s", err, stack)
	}
	d.Signal(syscall.SIGTERM)
	d.AwaitLine("calls are still in progress")
	m.LetGo()
	d.Wait()
}

// The scheduler chooses the threads that hang, so the test above may pass by chance. This
// test checks the reason why the first thread never hangs: it belongs to the goroutine of
// main, which waits for signals.
func TestFirstThreadIsMains(t *testing.T) {
	d := startShort(t, t.TempDir(), map[string]string{"/": t.TempDir()})
	d.Signal(syscall.SIGQUIT) // Go's runtime prints the stack of every goroutine
	d.Wait()
	if !regexp.MustCompile(`(?m)^goroutine 1 .*locked to thread`).MatchString(d.Output()) {
		t.Errorf("main has no thread of its own:\n%s", d.Output())
	}
}
