package soak

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/server/servertest"
)

// rpcbind is the machine's own program, in the run's network namespace. It starts and stops.
type rpcbind struct {
	t       testing.TB
	process *servertest.Process
	stopped bool
}

// change starts it, stops it so that it accepts connections and answers nothing, or kills it.
func (r *rpcbind) change(which int) string {
	switch {
	case r.process == nil:
		c := exec.Command("rpcbind", "-f", "-h", "127.0.0.1")
		c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		r.process = servertest.StartProcess(r.t, c)
		return "begins"
	case r.stopped:
		r.stopped = false
		_ = unix.Kill(r.process.PID(), unix.SIGCONT)
		return "goes on"
	case which == 0:
		r.stopped = true
		_ = unix.Kill(r.process.PID(), unix.SIGSTOP)
		return "answers nothing"
	}
	r.process.Kill()
	r.process = nil
	return "is killed"
}

// A directoryService answers getent(1), from which the daemon learns users and groups. It is a
// program in front of the machine's own getent, and answers, waits, or fails.
type directoryService struct{ dir string }

// moods are its behaviours, as shell commands.
var moods = []struct{ name, command string }{
	{"answers", `exec ` + getent + ` "$@"`},
	{"answers nothing", `exec sleep 3600`},
	{"crashes", `kill -SEGV $$`},
	{"answers late", `sleep 2; exec ` + getent + ` "$@"`},
}

const getent = "/usr/bin/getent"

func newDirectoryService(t testing.TB) *directoryService {
	d := &directoryService{t.TempDir()}
	if err := d.change(0); err != nil {
		t.Fatal(err)
	}
	return d
}

// change gives it the mood with a number.
func (d *directoryService) change(mood int) error {
	next := filepath.Join(d.dir, "next")
	if err := os.WriteFile(next, []byte("#!/bin/sh\n"+moods[mood].command+"\n"), 0o755); err != nil {
		return err
	}
	return os.Rename(next, filepath.Join(d.dir, "getent"))
}

// path is the PATH of a process that is to use this directory service.
func (d *directoryService) path() string { return "PATH=" + d.dir + ":" + os.Getenv("PATH") }
