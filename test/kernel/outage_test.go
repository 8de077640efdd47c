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

// outageRounds is the number of times that the server is stopped under one load.
const outageRounds = 3

// If the daemon is killed under load and started again, several times, the mount continues to
// work, no application sees an error, and every acknowledged change is present.
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

// If the daemon gets SIGTERM under load, it answers the calls in progress before it ends, so that
// not even an operation that cannot be repeated fails.
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

// After a network outage of 20 seconds under load, the daemon has executed no operation twice,
// because it answers retransmitted calls from its reply cache.
func TestNetworkCut(t *testing.T) {
	over(t, func(t *testing.T, transport string) {
		s := serve(t, "sync")
		l := s.load(transport, "strict")
		l.progress()
		s.network.Cut(l.guest.Number())
		// The outage itself is what the test is about. It is not a wait for an event.
		<-time.After(20 * time.Second)
		s.network.Heal(l.guest.Number())
		l.finish()
	})
}

// A loaded is a client guest that runs a load.
type loaded struct {
	t          testing.TB
	server     *server
	guest      *lab.Guest
	ledgers    string
	operations int // number of operations of each worker for which progress waits
}

// load starts a client guest with four workers, which work until finish. The guest has the usual
// kernel.
func (s *server) load(transport, mode string) *loaded {
	s.t.Helper()
	return s.loadOn(lab.Usual(), transport, mode)
}

// loadOn is load with a given kernel of the client guest. progress waits for fewer operations if
// the kernel is emulated, because it is slow.
func (s *server) loadOn(kernel lab.Kernel, transport, mode string) *loaded {
	s.t.Helper()
	ledgers := lab.Folder(s.t, "ledgers")
	l := &loaded{t: s.t, server: s, ledgers: ledgers, operations: 100}
	limit := 8 * time.Minute
	if kernel != lab.Usual() {
		l.operations, limit = 20, time.Hour
	}
	l.guest = s.boot(lab.Options{Kernel: kernel, Limit: limit, Writable: []string{ledgers}}, "load", transport, ledgers, mode)
	l.guest.Await("loading")
	return l
}

// progress waits until the server has acknowledged a number of further operations of every worker.
func (l *loaded) progress() {
	l.t.Helper()
	const workers = 4
	begin := l.acknowledged()
	for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		now, busy := l.acknowledged(), 0
		for name, count := range now {
			if count >= begin[name]+l.operations {
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

// acknowledged returns, by ledger, the number of operations that the ledger records as done.
func (l *loaded) acknowledged() map[string]int {
	counts := map[string]int{}
	books, _ := filepath.Glob(filepath.Join(l.ledgers, "*"))
	for _, book := range books {
		text, _ := os.ReadFile(book)
		counts[filepath.Base(book)] = bytes.Count(text, []byte("done\n"))
	}
	return counts
}

// finish waits for further operations, ends the load, and checks every acknowledged operation: at
// the client over a fresh mount, and in the exported folder itself.
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
