package disk

import (
	"fmt"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// guard aborts the requests to a FUSE file system when this process is killed. A thread of this
// process may wait for the disk that the process itself serves. Without the abort, the kernel
// would then keep this thread, and the loop device, for ever.
func guard(t testing.TB, dir string) {
	t.Helper()
	connections := t.TempDir()
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("fusectl", connections, "fusectl", 0, ""); err != nil {
		t.Fatal(err)
	}
	abort := fmt.Sprintf("%s/%d/abort", connections, unix.Minor(st.Dev))
	guardian := exec.Command("sh", "-c", `trap 'echo 1 >"$0"; kill $!; exit' TERM; while :; do sleep 3600 & wait; done`, abort)
	guardian.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	started, ended := make(chan error), make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread() // Pdeathsig is sent when this thread ends
		defer runtime.UnlockOSThread()
		err := guardian.Start()
		started <- err
		if err == nil {
			_ = guardian.Wait()
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = unix.Kill(-guardian.Process.Pid, unix.SIGKILL)
		<-ended
		_ = unix.Unmount(connections, 0)
	})
}
