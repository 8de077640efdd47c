package rdmatest

import (
	"testing"
	"time"
)

// within waits until ch has a value or is closed. It fails the test if that takes longer than
// Guard.
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

// returned runs f in a goroutine. It closes the returned channel when f has returned.
func returned(f func()) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	return done
}
