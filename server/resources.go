package server

import (
	"os"
	"runtime"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/internal/census"
)

const (
	// ownDescriptors is the number of descriptors that the daemon itself uses: for listeners,
	// logs, the state directory, metrics and the runtime.
	ownDescriptors = 64
	// mostForCalls is the largest number of descriptors that running calls may hold. If
	// 1/callsPart of all descriptors is less, that is the limit.
	mostForCalls, callsPart = 1024, 16
	// mostForCallbacks is the largest number of connections to NFSv4.0 clients for callbacks. If
	// 1/callbacksPart of all descriptors is less, that is the limit.
	mostForCallbacks, callbacksPart = 256, 64
	// mostConnections is the largest default number of connections. An idle connection takes about
	// 10 KiB of memory.
	mostConnections = 32768
)

// A division says for what the process uses its descriptors, so that neither connections nor files
// take all of them: the largest numbers of connections, of connections for callbacks, and of
// descriptors that the file systems hold between calls.
type division struct{ seats, callbacks, files int }

// divide divides the descriptors, of which the process may open limit. Connections get half of them,
// or up to three quarters if the user wants more; files get the rest. The argument wanted is the
// configured number of connections; 0 means the default.
func divide(limit, wanted int) division {
	left := max(limit-ownDescriptors, 0)
	callbacks := min(mostForCallbacks, max(left/callbacksPart, 1))
	shared := left - min(mostForCalls, left/callsPart) - callbacks
	most, forSeats := mostConnections, shared/2
	if wanted > 0 {
		most, forSeats = wanted, shared/4*3
	}
	// census.Spare descriptors stay free for connections that are being closed.
	seats := forSeats - census.Spare(0)
	for seats+census.Spare(seats) > forSeats {
		seats = forSeats - census.Spare(seats)
	}
	seats = min(max(seats, 1), most)
	return division{seats, callbacks, max(shared-seats-census.Spare(seats), 0)}
}

// descriptorLimit returns the number of descriptors that the process may have: the soft limit of
// RLIMIT_NOFILE, which Go's runtime has raised to the hard limit.
func descriptorLimit() int {
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &r) != nil {
		return 1024
	}
	return int(min(r.Cur, 1<<30))
}

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
