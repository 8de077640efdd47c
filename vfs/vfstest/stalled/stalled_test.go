package stalled

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/nfsrdmad/nfsrdmad/test/await"
)

// After StallAfter(n), n requests are served and later operations hang. After LetGo they succeed.
func TestOperationsHang(t *testing.T) {
	m := Mount(t)
	file := filepath.Join(m.Dir, "file")
	if err := os.WriteFile(file, []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	for after := range 3 { // looking the name up, opening and reading need at least one request each
		m.StallAfter(after)
		read := make(chan string, 1)
		go func() {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Error(err)
			}
			read <- string(b)
		}()
		m.AwaitHanging(1)
		select {
		case <-read:
			t.Errorf("a read goes on after %d requests", after)
		default:
		}
		if n := m.Hanging(); n != 1 {
			t.Errorf("%d requests hang", n)
		}
		m.LetGo()
		if got := await.Receive(t, "the read ends", read); got != "text" {
			t.Errorf("read %q", got)
		}
	}
	if m.Hanging() != 0 {
		t.Error("something hangs that was let go")
	}
	if b, err := os.ReadFile(filepath.Join(m.Backing, "file")); err != nil || string(b) != "text" {
		t.Errorf("behind it: %q, %v", b, err)
	}
}

// A Disk hangs if it has to be read. After Remount, nothing of the disk is in memory.
func TestDiskHangs(t *testing.T) {
	d := NewDisk(t)
	file := filepath.Join(d.Mountpoint, "file")
	if err := os.WriteFile(file, []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	d.Remount()
	d.Stall()
	read := make(chan error, 1)
	go func() { _, err := os.ReadFile(file); read <- err }()
	d.AwaitHanging(1)
	d.LetGo()
	if err := await.Receive(t, "the read ends", read); err != nil {
		t.Error(err)
	}
}

const frozenVar = "STALLED_FROZEN"

// If the process of Alone freezes, the test fails with the step in which it froze, and the process
// is killed.
func TestAloneEndsAFrozenProcess(t *testing.T) {
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestFrozen$")
	cmd.Env = append(os.Environ(), frozenVar+"=1")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "froze in this step: a raw call that waits") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestFrozen(t *testing.T) {
	if os.Getenv(frozenVar) == "" {
		t.Skip("for a process of TestAloneEndsAFrozenProcess")
	}
	silence = 3 * time.Second
	if !Alone(t, 1) {
		return
	}
	var p [2]int
	if err := syscall.Pipe(p[:]); err != nil {
		t.Fatal(err)
	}
	Step("a raw call that waits")
	var b byte
	go syscall.RawSyscall(syscall.SYS_READ, uintptr(p[0]), uintptr(unsafe.Pointer(&b)), 1)
	runtime.Gosched()
	runtime.GC()
}
