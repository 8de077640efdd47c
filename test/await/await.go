// Package await lets tests wait for other goroutines. Each wait has a time limit, and a message
// that names the missing event. Without this package, only the time limit of the test's package
// would end a test that hangs, after minutes and without that message.
package await

import (
	"runtime"
	"testing"
	"time"
)

// Limit is the time limit of every wait. It is only a safeguard: the events come within
// milliseconds, or, on a busy machine, within seconds.
const Limit = 30 * time.Second

// WorkloadLimit is the time limit for a workload of many steps, because each step may have to
// wait for a processor on a busy machine.
const WorkloadLimit = 90 * time.Second

// spins is the number of times that Within tests a condition before it begins to sleep between
// two tests. In a bubble of testing/synctest only sleeping lets time pass, so the sleeps make the
// time limit work there as well.
const spins = 1000

// Until waits until a condition holds. It fails the test if the condition does not hold within
// Limit. It calls holds again and again on the calling goroutine.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	if !Within(Limit, holds) {
		t.Fatalf("not within %v: %s", Limit, what)
	}
}

// Within waits until a condition holds, at most for the duration limit, and reports whether the
// condition holds.
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

// Receive waits for a value from a channel, or for the channel's close. It fails the test if
// neither comes within Limit.
func Receive[T any](t testing.TB, what string, ch <-chan T) T {
	t.Helper()
	return receive(t, Limit, what, ch)
}

func receive[T any](t testing.TB, limit time.Duration, what string, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v // without a timer, because benchmarks count allocations and a timer is one
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

// Return waits until f returns, and fails the test if it does not return within Limit. f runs on
// another goroutine, so it must not call t.FailNow or t.Fatal.
func Return(t testing.TB, what string, f func()) {
	t.Helper()
	receive(t, Limit, what, begin(f))
}

// Workload is Return with WorkloadLimit, for workloads of many steps.
func Workload(t testing.TB, what string, f func()) {
	t.Helper()
	receive(t, WorkloadLimit, what, begin(f))
}

// begin runs f on another goroutine. It returns a channel that is closed when f has returned.
func begin(f func()) <-chan struct{} {
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		f()
	}()
	return returned
}
