package stalled

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// aloneVar is the environment variable that tells the separate process which test it runs.
const aloneVar = "STALLED_ALONE"

// silence is the longest time that the separate process may print nothing. The process prints its
// steps with Step, and each step takes seconds at most.
var silence = 30 * time.Second

// Alone runs the calling test in a separate process with GOMAXPROCS=processors. In that process it
// returns true, and the test does its work. In the original process it waits for the separate
// process, fails the test if that process failed or froze, skips it if that process skipped it,
// and returns false.
//
// With one processor, a goroutine that keeps this processor during a system call stops the whole
// process, including any watchdog in it. So the watchdog is in the original process.
func Alone(t *testing.T, processors int) bool {
	t.Helper()
	if os.Getenv(aloneVar) == t.Name() {
		return true
	}
	temporary := t.TempDir()
	// A mount that the separate process left would prevent the removal of the directory.
	defer unmountBelow(temporary)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := exec.Command("/proc/self/exe", "-test.v", "-test.count=1", "-test.run=^"+regexp.QuoteMeta(t.Name())+"$")
	cmd.Env = append(os.Environ(), aloneVar+"="+t.Name(), fmt.Sprint("GOMAXPROCS=", processors), "TMPDIR="+temporary)
	cmd.Stdout, cmd.Stderr = w, w
	// The process and its children are one process group, so that they end together.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	ended, err := startTied(cmd)
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	group := -cmd.Process.Pid
	defer unix.Kill(group, unix.SIGKILL)
	lines := make(chan string)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(r); s.Scan(); {
			lines <- s.Text()
		}
	}()
	var said []string
	step := "its start"
	for open := true; open; {
		var line string
		select {
		case line, open = <-lines:
			said = append(said, line)
			if s, ok := strings.CutPrefix(line, stepMark); ok {
				step = s
			}
		case <-time.After(silence):
			// The group includes the processes that serve FUSE file systems. When they end,
			// hanging system calls fail. A signal alone does not end a thread that waits for FUSE.
			unix.Kill(group, unix.SIGKILL)
			for range lines {
			}
			t.Fatalf("the process froze in this step: %s", step)
		}
	}
	<-ended
	text := strings.Join(said, "\n")
	switch {
	case strings.Contains(text, "--- FAIL: "+t.Name()):
		t.Fatalf("in this step: %s\n%s", step, text)
	case strings.Contains(text, "--- SKIP: "+t.Name()):
		t.Skip(text)
	case !strings.Contains(text, "--- PASS: "+t.Name()):
		t.Fatalf("the process ended in this step: %s\n%s", step, text)
	}
	return false
}

const stepMark = "stalled: step: "

// Step prints the step that the separate process begins, for the report of a failure.
func Step(format string, args ...any) { fmt.Println(stepMark + fmt.Sprintf(format, args...)) }

// unmountBelow detaches all mounts below dir, the newest first.
func unmountBelow(dir string) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return
	}
	lines := strings.Split(string(mounts), "\n")
	slices.Reverse(lines)
	for _, line := range lines {
		if f := strings.Fields(line); len(f) > 1 && strings.HasPrefix(f[1], dir+string(filepath.Separator)) {
			unix.Unmount(f[1], unix.MNT_DETACH)
		}
	}
}
