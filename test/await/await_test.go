package await

import (
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// failing is a testing.TB that records its failure.
type failing struct {
	testing.TB
	said string
}

func (f *failing) Helper() {}

func (f *failing) Fatalf(format string, _ ...any) {
	f.said = format
	runtime.Goexit()
}

// fails runs f with a failing, and returns the message of its failure, or "".
func fails(t *testing.T, f func(t testing.TB)) string {
	inner, done := &failing{TB: t}, make(chan struct{})
	go func() {
		defer close(done)
		f(inner)
	}()
	<-done
	return inner.said
}

// Each wait ends when its condition becomes true, however late, and fails the test with a message
// if it never does. The time is that of a synctest bubble.
func TestWaitsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		released := make(chan struct{})
		defer close(released)
		begin := time.Now()
		for name, wait := range map[string]func(t testing.TB){
			"Until":    func(t testing.TB) { Until(t, "what", func() bool { return false }) },
			"Receive":  func(t testing.TB) { Receive(t, "what", make(chan int)) },
			"Return":   func(t testing.TB) { Return(t, "what", func() { <-released }) },
			"Workload": func(t testing.TB) { Workload(t, "what", func() { <-released }) },
		} {
			if said := fails(t, wait); !strings.Contains(said, "%s") {
				t.Errorf("%s: failed with %q", name, said)
			}
		}
		if waited := time.Since(begin); waited < 3*Limit+WorkloadLimit || waited > 3*Limit+WorkloadLimit+time.Second {
			t.Errorf("waited for %v", waited)
		}

		var late atomic.Bool
		ch := make(chan int, 1)
		time.AfterFunc(Limit-time.Second, func() {
			late.Store(true)
			ch <- 5
		})
		for name, wait := range map[string]func(t testing.TB){
			"Until":   func(t testing.TB) { Until(t, "what", late.Load) },
			"Receive": func(t testing.TB) { Receive(t, "what", ch) },
			"Return":  func(t testing.TB) { Return(t, "what", func() {}) },
		} {
			if said := fails(t, wait); said != "" {
				t.Errorf("%s: failed with %q", name, said)
			}
		}
	})
}
