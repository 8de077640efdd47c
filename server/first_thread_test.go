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

// The daemon is told to end while as many of its threads as may wait for a file system
// wait for one that hangs. The kernel hands SIGTERM to the process's first thread, which
// is not among them.
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

// Which threads hang is the scheduler's choice, so that the test above may pass by
// chance. This one sees the reason why the first thread never does: it belongs to the
// goroutine of main, which waits for signals.
func TestFirstThreadIsMains(t *testing.T) {
	d := startShort(t, t.TempDir(), map[string]string{"/": t.TempDir()})
	d.Signal(syscall.SIGQUIT) // Go's runtime writes what every goroutine does
	d.Wait()
	if !regexp.MustCompile(`(?m)^goroutine 1 .*locked to thread`).MatchString(d.Output()) {
		t.Errorf("main has no thread of its own:\n%s", d.Output())
	}
}
