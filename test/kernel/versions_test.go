//go:build kernel

package kernel

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/test/kernel/lab"
)

// TestVersions runs the tests of files and names over each version of NFSv4, and tests locks.
func TestVersions(t *testing.T) {
	overVersions(t, func(t *testing.T, how string) {
		serve(t, "sync").runAll(lab.Options{Limit: 6 * time.Minute}, []string{
			"write_remount_compare", "names", "permissions", "direct", "mmap", "locks",
		}, how)
	})
}

// TestVersionsOverManyConnections works over a mount with eight connections, which share one
// session from NFSv4.1 on.
func TestVersionsOverManyConnections(t *testing.T) {
	overVersions(t, func(t *testing.T, how string) {
		serve(t, "sync").run(lab.Options{Limit: 3 * time.Minute}, "nconnect", how)
	})
}

// While one client has bytes locked, another client cannot lock them. If both have a shared lock and convert it, one is told
// of the deadlock (NFS4ERR_DEADLOCK), and the other gets the lock.
func TestLocksOfTwoClients(t *testing.T) {
	overVersions(t, func(t *testing.T, how string) {
		s := serve(t, "sync")
		first := s.boot(lab.Options{Limit: 3 * time.Minute}, "locks_two", how, "0")
		first.Await("locked")
		second := s.boot(lab.Options{Limit: 3 * time.Minute}, "locks_two", how, "1")
		second.Await("refused")
		first.Signal("unlock")
		if strings.Contains(how, "/4") {
			first.Await("shared")
			second.Await("shared")
			first.Signal("convert")
			second.Signal("convert")
		}
		second.Succeed()
		first.Succeed()
		if said := first.Output() + second.Output(); strings.Contains(how, "/4") &&
			(strings.Count(said, "the lock is converted") != 1 || strings.Count(said, "cannot be converted") != 1) {
			t.Error("not one of the clients was told of the deadlock, and the other got the lock")
		}
	})
}

// TestNewestKernel mounts each version over each transport with Linux 7.2. make test does not set this
// kernel up, because it takes long to compile; make test-all does, and runs all tests with it.
func TestNewestKernel(t *testing.T) {
	needsDaemon(t)
	t.Parallel()
	if !everything() && !lab.UserMode7_2.Ready() {
		t.Skipf("to run this test, run go run ./test/kernel/setup %s", lab.UserMode7_2)
	}
	serve(t, "sync").run(lab.Options{Kernel: lab.UserMode7_2, Limit: 5 * time.Minute}, "newest", "1")
}

// shortLease returns the path of a configuration file with short times, for tests that wait until
// a lease or a grace period ends.
func shortLease(t testing.TB) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "nfsrdmad.toml")
	if err := os.WriteFile(file, []byte("[nfs]\nlease_time = \"10s\"\ngrace_time = \"20s\"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// If the daemon is killed while a client has a file open and locked, the client reclaims both
// from the next daemon. Another client that waits for the lock does not get it before.
func TestLocksOverARestart(t *testing.T) {
	needsDaemon(t)
	overVersions(t, func(t *testing.T, how string) {
		serve(t, "sync", "--config", shortLease(t)).restartsWhileLocked(how)
	})
}

// restartsWhileLocked kills the daemon, and starts the next one, while one client has a lock and another
// one waits for it. The first gets its lock back, and the other one gets it when it is unlocked.
func (s *server) restartsWhileLocked(how string) {
	s.t.Helper()
	holder := s.boot(lab.Options{Limit: 5 * time.Minute}, "locks_restart", how, "holder")
	holder.Await("locked")
	other := s.boot(lab.Options{Limit: 5 * time.Minute}, "locks_restart", how, "other")
	other.Await("refused")
	s.daemon.Kill()
	s.daemon.Start()
	other.Signal("again")
	holder.Signal("go-on")
	holder.Await("written")
	other.Await("refused-again")
	holder.Signal("unlock")
	other.Succeed()
	holder.Succeed()
}

// A client that waits for the lock of a client that died gets it when the dead client's lease
// ends, and not before.
func TestLocksOfAClientThatDied(t *testing.T) {
	needsDaemon(t)
	overVersions(t, func(t *testing.T, how string) {
		s := serve(t, "sync", "--config", shortLease(t))
		holder := s.boot(lab.Options{Limit: 5 * time.Minute}, "locks_restart", how, "holder")
		holder.Await("locked")
		other := s.boot(lab.Options{Limit: 5 * time.Minute}, "locks_restart", how, "other")
		other.Await("refused")
		holder.Kill()
		other.Signal("again")
		other.Await("refused-again")
		other.Succeed()
	})
}

// A client and a program on the server's machine exclude each other by POSIX locks on the same
// bytes.
func TestLocksWithLocalPrograms(t *testing.T) {
	needsDaemon(t)
	overVersions(t, func(t *testing.T, how string) {
		s := serve(t, "sync")
		g := s.boot(lab.Options{Limit: 3 * time.Minute}, "locks_local", how)
		g.Await("locked")
		f, err := os.OpenFile(filepath.Join(s.folder, "lock"), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		// F_OFD_SETLK gives the lock to an open file description, not to the process, because
		// other locks of this process must not interfere.
		try := func(from, length int64) error {
			return unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Start: from, Len: length})
		}
		if err := try(10, 10); !errors.Is(err, unix.EAGAIN) {
			t.Errorf("a local program wants bytes that the client has locked: %v", err)
		}
		if err := try(100, 10); err != nil {
			t.Errorf("a local program wants bytes that are not locked: %v", err)
		}
		g.Signal("local")
		g.Succeed()
	})
}
