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

// aloneVar names the test that a process was started for.
const aloneVar = "STALLED_ALONE"

// silence is how long the process of a test may say nothing: it says with Step
// what it does, and each step takes seconds at most.
var silence = 30 * time.Second

// Alone runs the test that calls it in a process of its own, with processors as
// its GOMAXPROCS. It returns true in that process, which is to do the test's
// work. Elsewhere it waits for the process, fails the test where the process
// failed or froze, and returns false.
//
// With one processor a goroutine that keeps it in a system call stops the whole
// process, the watchdogs in it too. The one here is outside.
func Alone(t *testing.T, processors int) bool {
	t.Helper()
	if os.Getenv(aloneVar) == t.Name() {
		return true
	}
	temporary := t.TempDir()
	// What the process leaves mounted would keep its directory from being removed.
	defer unmountBelow(temporary)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := exec.Command("/proc/self/exe", "-test.v", "-test.count=1", "-test.run=^"+regexp.QuoteMeta(t.Name())+"$")
	cmd.Env = append(os.Environ(), aloneVar+"="+t.Name(), fmt.Sprint("GOMAXPROCS=", processors), "TMPDIR="+temporary)
	cmd.Stdout, cmd.Stderr = w, w
	// The process and what it starts are one group, and end together.
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
			// Killing the serving processes with the group gives an error to
			// what hangs: a thread that waits for FUSE dies of nothing else.
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

// Step says what the process of Alone does next.
func Step(format string, args ...any) { fmt.Println(stepMark + fmt.Sprintf(format, args...)) }

// unmountBelow detaches all that is mounted below dir, the last first.
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
