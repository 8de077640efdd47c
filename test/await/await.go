// Package await is how tests wait for what other goroutines bring about: bounded,
// and with a message that says what did not happen. A test that hangs is ended by
// the time limit of its package instead, after minutes and without a name.
package await

import (
	"runtime"
	"testing"
	"time"
)

// Limit bounds every wait. It only guards: what is waited for comes in
// milliseconds, or, on a machine that is busy with other things, in seconds.
const Limit = 30 * time.Second

// WorkloadLimit bounds the wait for a workload of many steps, each of which has its
// turn on a machine that may be busy.
const WorkloadLimit = 90 * time.Second

// spins is how often a condition is looked at before the waiting goroutine sleeps
// between two looks. In a bubble of testing/synctest the sleeps let time go on, so
// that the bound holds there as well.
const spins = 1000

// Until waits until a condition holds, and fails the test where it never does.
// The condition is evaluated by the calling goroutine, again and again.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	if !Within(Limit, holds) {
		t.Fatalf("not within %v: %s", Limit, what)
	}
}

// Within waits until a condition holds, for so long at most, and says whether it
// did.
func Within(limit time.Duration, holds func() bool) bool {
	end := time.Now().Add(limit)
	for n := 0; !holds(); n++ {
		switch {
		case time.Now().After(end):
			return holds()
		case n < spins:
			runtime.Gosched()
		default:
			time.Sleep(time.Millisecond)
		}
	}
	return true
}

// Receive waits for a value of a channel, or for its end, and fails the test where
// neither comes.
func Receive[T any](t testing.TB, what string, ch <-chan T) T {
	t.Helper()
	return receive(t, Limit, what, ch)
}

func receive[T any](t testing.TB, limit time.Duration, what string, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v // without a timer: benchmarks and counts of allocations wait, too
	default:
	}
	guard := time.NewTimer(limit)
	defer guard.Stop()
	select {
	case v := <-ch:
		return v
	case <-guard.C:
		t.Fatalf("not within %v: %s", limit, what)
		panic("unreachable")
	}
}

// Return waits until f returns, and fails the test where it does not. f runs on a
// goroutine of its own: it must not end the test.
func Return(t testing.TB, what string, f func()) {
	t.Helper()
	receive(t, Limit, what, begin(f))
}

// Workload is Return for a workload of many steps.
func Workload(t testing.TB, what string, f func()) {
	t.Helper()
	receive(t, WorkloadLimit, what, begin(f))
}

// begin runs f and gives the channel that is closed when it has returned.
func begin(f func()) <-chan struct{} {
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		f()
	}()
	return returned
}
