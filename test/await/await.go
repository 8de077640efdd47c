// Package await lets tests wait for the work of other goroutines, with a bound, and with a
// message that names the missing event. Without it, only the time limit of its package would end
// a test that hangs, after minutes and without that name.
package await

import (
	"runtime"
	"testing"
	"time"
)

// Limit bounds every wait. It is only a guard: the events come in milliseconds, or, on a busy
// machine, in seconds.
const Limit = 30 * time.Second

// WorkloadLimit bounds the wait for a workload of many steps, each of which needs its turn on a
// machine that may be busy.
const WorkloadLimit = 90 * time.Second

// spins is the number of times that a condition is tested before the waiting goroutine sleeps
// between two tests. In a bubble of testing/synctest the sleeps let time pass, so that the bound
// holds there as well.
const spins = 1000

// Until waits until a condition holds, and fails the test if it does not in time. The calling
// goroutine evaluates the condition again and again.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	if !Within(Limit, holds) {
		t.Fatalf("not within %v: %s", Limit, what)
	}
}

// Within waits until a condition holds, for limit at most, and reports whether it did.
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

// Receive waits for a value of a channel, or for its end, and fails the test if neither comes.
func Receive[T any](t testing.TB, what string, ch <-chan T) T {
	t.Helper()
	return receive(t, Limit, what, ch)
}

func receive[T any](t testing.TB, limit time.Duration, what string, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v // without a timer, because benchmarks and counts of allocations wait, too
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

// Return waits until f returns, and fails the test if it does not. f runs on a goroutine of its
// own, so it must not end the test.
func Return(t testing.TB, what string, f func()) {
	t.Helper()
	receive(t, Limit, what, begin(f))
}

// Workload is Return for a workload of many steps.
func Workload(t testing.TB, what string, f func()) {
	t.Helper()
	receive(t, WorkloadLimit, what, begin(f))
}

// begin runs f and returns a channel that is closed when f has returned.
func begin(f func()) <-chan struct{} {
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		f()
	}()
	return returned
}
