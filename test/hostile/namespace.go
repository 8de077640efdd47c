package hostile

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// nestedVariable is an environment variable. It tells the test program that it has its own mounts.
const nestedVariable = "NFSRDMAD_HOSTILE_NESTED"

// Nested runs the test program again in a mount namespace of its own, with files in memory, and
// returns its exit status and again = true. In that second process, Nested mounts a tmpfs at the
// directory for temporary files and returns again = false. The kernel removes these mounts when the
// process ends, however it ends. Nested needs root. The second process gets more namespaces of its
// own if `further` has flags of unshare(2) for them.
func Nested(further uintptr) (status int, again bool, err error) {
	if os.Getenv(nestedVariable) == "" {
		status, err = nest(further)
		return status, true, err
	}
	// The files are in memory, because a slow disk would disturb the measurements.
	dir := os.TempDir()
	return 0, false, unix.Mount("hostile", dir, "tmpfs", 0, "mode=0755")
}

func nest(further uintptr) (int, error) {
	dir, err := os.MkdirTemp("", "nfsrdmad-hostile")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), nestedVariable+"=1", "TMPDIR="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS | further, Pdeathsig: syscall.SIGKILL}
	// The kernel sends Pdeathsig when the thread that started the process ends, so this thread
	// must stay.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Exited() {
		return exit.ExitCode(), nil
	}
	return 0, err
}

// RaiseDescriptors raises RLIMIT_NOFILE of this process and its children to n, if the machine
// permits that.
func RaiseDescriptors(n uint64) {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil && limit.Max < n {
		// If this fails, the run fails later, when a peer gets no socket.
		_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: n})
	}
}
