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

// An rpcbind is a process of the machine's rpcbind program in the run's network namespace, or none.
type rpcbind struct {
	t       testing.TB
	process *servertest.Process
	stopped bool
}

// change starts rpcbind if it does not run, and continues it if it is stopped. Otherwise it stops
// rpcbind by SIGSTOP if `which` is 0, so that rpcbind accepts connections and does not answer, or
// else kills it. change returns what it did, in words.
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

// A directoryService simulates the directory service from which the daemon learns users and
// groups. It is a script in place of getent(1) that answers, waits, or fails.
type directoryService struct{ dir string }

// moods are the behaviours of the directory service. The script executes the shell command of the
// present mood.
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

// change sets the behaviour to moods[mood].
func (d *directoryService) change(mood int) error {
	next := filepath.Join(d.dir, "next")
	if err := os.WriteFile(next, []byte("#!/bin/sh\n"+moods[mood].command+"\n"), 0o755); err != nil {
		return err
	}
	return os.Rename(next, filepath.Join(d.dir, "getent"))
}

// path returns the variable PATH for a process that uses this directory service.
func (d *directoryService) path() string { return "PATH=" + d.dir + ":" + os.Getenv("PATH") }
