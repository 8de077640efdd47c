package server

import (
	"os"
	"runtime"
	"sync/atomic"
)

// processors is the number of processors that calls may keep busy, or 0 if SpareProcessor was not
// called.
var processors atomic.Int64

// SpareProcessor gives the Go runtime one processor more than this process may use. It does nothing
// if the environment sets GOMAXPROCS. While calls compute on all other processors, the runtime looks
// for input with the spare one; without it, the runtime would do so only every 10 ms. A program
// whose only work is to serve calls SpareProcessor before it starts a Server.
func SpareProcessor() {
	if os.Getenv("GOMAXPROCS") == "" && processors.Load() == 0 {
		n := runtime.GOMAXPROCS(0)
		processors.Store(int64(n))
		runtime.GOMAXPROCS(n + 1)
	}
}

// busyProcessors returns the number of processors that calls may keep busy.
func busyProcessors() int {
	if n := processors.Load(); n > 0 {
		return int(n)
	}
	return runtime.GOMAXPROCS(0)
}
