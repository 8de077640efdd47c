//go:build kernel

package kernel

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/test/kernel/lab"
)

// outageRounds is the number of times that a server goes away under one load.
const outageRounds = 3

// TestDaemonKilledUnderLoad kills the daemon and starts it again, several times: the mount goes
// on, no application sees an error, and every acknowledged change is present.
func TestDaemonKilledUnderLoad(t *testing.T) {
	over(t, func(t *testing.T, transport string) {
		needsDaemon(t)
		s := serve(t, "sync")
		l := s.load(transport, "outages")
		for range outageRounds {
			l.progress()
			s.daemon.Kill()
			s.daemon.Start()
		}
		l.finish()
	})
}

// TestDaemonStoppedUnderLoad ends the daemon by SIGTERM instead: the daemon answers the calls in
// progress before it ends, so that not even an operation that cannot be repeated fails.
func TestDaemonStoppedUnderLoad(t *testing.T) {
	over(t, func(t *testing.T, transport string) {
		needsDaemon(t)
		s := serve(t, "sync")
		l := s.load(transport, "strict")
		for range outageRounds {
			l.progress()
			s.daemon.Stop()
			s.daemon.Start()
		}
		l.finish()
	})
}

// TestNetworkCut cuts the network for 20 seconds under load, and restores it. The daemon
// remembers its answers, so it never executes an operation twice.
func TestNetworkCut(t *testing.T) {
	over(t, func(t *testing.T, transport string) {
		s := serve(t, "sync")
		l := s.load(transport, "strict")
		l.progress()
		s.network.Cut(l.guest.Number())
		// The outage itself is the tested condition, not a way to wait for something.
		<-time.After(20 * time.Second)
		s.network.Heal(l.guest.Number())
		l.finish()
	})
}

// loaded is a client under load.
type loaded struct {
	t       testing.TB
	server  *server
	guest   *lab.Guest
	ledgers string
}

// load starts a client guest whose workers work until finish.
func (s *server) load(transport, mode string) *loaded {
	s.t.Helper()
	ledgers := lab.Folder(s.t, "ledgers")
	l := &loaded{t: s.t, server: s, ledgers: ledgers}
	l.guest = s.boot(lab.Options{Limit: 8 * time.Minute, Writable: []string{ledgers}}, "load", transport, ledgers, mode)
	l.guest.Await("loading")
	return l
}

// progress waits until every worker has had 20 more operations acknowledged.
func (l *loaded) progress() {
	l.t.Helper()
	const workers, operations = 4, 100
	begin := l.acknowledged()
	for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		now, busy := l.acknowledged(), 0
		for name, count := range now {
			if count >= begin[name]+operations {
				busy++
			}
		}
		if busy >= workers {
			return
		}
		if l.guest.Ended() || time.Now().After(deadline) {
			l.t.Fatalf("the load does not go on: %v operations acknowledged, %v before", now, begin)
		}
	}
}

// acknowledged counts the operations that each worker's ledger has as done.
func (l *loaded) acknowledged() map[string]int {
	counts := map[string]int{}
	books, _ := filepath.Glob(filepath.Join(l.ledgers, "*"))
	for _, book := range books {
		text, _ := os.ReadFile(book)
		counts[filepath.Base(book)] = bytes.Count(text, []byte("done\n"))
	}
	return counts
}

// finish waits for further operations, ends the load, and checks every acknowledged operation, at
// the client by a fresh mount and in the exported folder itself.
func (l *loaded) finish() {
	l.t.Helper()
	l.progress()
	l.guest.Signal("stop")
	l.t.Log(lastLine(l.guest.Succeed()))
	if l.server.folder == "" {
		return
	}
	worker := build(l.t, "test/kernel/worker")
	if out, err := exec.Command(worker, "check", filepath.Join(l.server.folder, "load"), l.ledgers).CombinedOutput(); err != nil {
		l.t.Errorf("in the exported folder: %s", out)
	}
}
