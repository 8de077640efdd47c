package rdmatest

import (
	"testing"
	"time"
)

// within waits for a value of ch, or for its end, and fails the test where neither
// comes before Guard is over.
func within[T any](t testing.TB, what string, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	default:
	}
	guard := time.NewTimer(Guard)
	defer guard.Stop()
	select {
	case v := <-ch:
		return v
	case <-guard.C:
		t.Fatalf("not within %v: %s", Guard, what)
		panic("unreachable")
	}
}

// returned is closed when f has returned.
func returned(f func()) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	return done
}
