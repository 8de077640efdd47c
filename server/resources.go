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
	// mostForFiles is the largest number of descriptors for file systems. It is limited because
	// the file systems check each open descriptor every second.
	mostForFiles = 1 << 17
	// mostConnections is the largest default number of connections. An idle connection takes about
	// 10 KiB of memory.
	mostConnections = 32768
)

// The descriptors that the process may open are divided between connections and files, so that
// neither takes all of them. Connections get half of them, or up to three quarters if the user
// asks for more; files get the rest.

// shared returns how many of the process's descriptors connections and files may use together.
// limit is the number that the process may open.
func shared(limit int) int {
	left := max(limit-ownDescriptors, 0)
	return left - min(mostForCalls, left/callsPart) - callbacksWithin(limit)
}

// callbacksWithin returns how many connections to clients the server may open for callbacks, if the
// process may open limit descriptors.
func callbacksWithin(limit int) int {
	return min(mostForCallbacks, max(limit-ownDescriptors, callbacksPart)/callbacksPart)
}

// seatsWithin returns how many connections the server accepts. The argument limit is the number
// of descriptors that the process may open, and wanted the configured number of connections; 0
// means the default.
func seatsWithin(limit, wanted int) int {
	if wanted == 0 {
		return min(seatsIn(shared(limit)/2), mostConnections)
	}
	return min(wanted, seatsIn(shared(limit)/4*3))
}

// seatsIn returns for how many connections n descriptors are enough. It keeps census.Spare of the n
// descriptors free for connections that are being closed.
func seatsIn(n int) int {
	seats := n - census.Spare(0)
	for seats+census.Spare(seats) > n {
		seats = n - census.Spare(seats)
	}
	return max(seats, 1)
}

// descriptorsForFiles returns how many descriptors the file systems may hold between calls, if the
// process may open limit descriptors and accepts the given number of connections.
func descriptorsForFiles(limit, connections int) int {
	return min(max(shared(limit)-connections-census.Spare(connections), 0), mostForFiles)
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
