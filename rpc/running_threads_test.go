package rpc

import (
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/test/await"
)

// A thread that uses the processor counts; threads that wait in a system call do not.
func TestRunningThreads(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	fd := int(r.Fd()) // Fd makes the descriptor block
	var ended sync.WaitGroup
	defer func() {
		w.Close()
		ended.Wait()
		r.Close()
	}()
	const waiting = 20
	for range waiting {
		ended.Go(func() {
			var b [1]byte
			syscall.Read(fd, b[:])
		})
	}
	await.Until(t, "one thread runs, and those that wait in a system call do not", func() bool {
		n := runningThreads()
		return n >= 1 && n < waiting
	})
}

// Calls that use the processors in system calls are not stuck, however long they run: no others begin in
// their place.
func TestCallsThatUseProcessorsAreNotStuck(t *testing.T) {
	x := newExecutor(&Config{Workers: 64, LaneWorkers: 64, Processors: 2, Ready: func() int { return 0 }}, nil, nil)
	now := time.Now()
	l := new(lane)
	const calls = 10
	for range calls {
		x.busy.Add(&worker{lane: l, since: now.Add(-time.Minute)})
	}
	for beyond, want := range map[int64]int{0: calls, 4: calls - 4, calls: 0, 2 * calls: 0} {
		x.pace.beyond.Store(beyond)
		if x.countStuck(now); x.pace.stuck != want || l.stuck != 0 && l.stuck != want {
			t.Errorf("beside %d running threads %d of %d calls are stuck", beyond, x.pace.stuck, calls)
		}
		l.stuck = 0
	}
	x.pace.beyond.Store(8)
	x.mu.Lock()
	x.check(now)
	if x.pace.most >= calls {
		t.Errorf("%d workers may run calls while threads wait for the processors", x.pace.most)
	}
	x.closed = true
	x.mu.Unlock()
	x.wg.Wait()
}
