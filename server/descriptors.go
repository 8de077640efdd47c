package server

import (
	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/internal/census"
)

const (
	// ownDescriptors is the number of descriptors that the daemon itself uses: for listeners,
	// logs, the state directory, metrics and the runtime.
	ownDescriptors = 64
	// mostForCalls is the largest number of descriptors that running calls may hold. It is at
	// most 1/callsPart of all descriptors.
	mostForCalls, callsPart = 1024, 16
	// mostForCallbacks is the largest number of connections to NFSv4.0 clients. It is at most
	// 1/callbacksPart of all descriptors.
	mostForCallbacks, callbacksPart = 256, 64
	// mostForFiles is the largest number of descriptors for file systems. There is a bound,
	// because the file systems check each descriptor every second.
	mostForFiles = 1 << 17
	// mostConnections is the default number of connections. An idle one takes about 10 KiB.
	mostConnections = 32768
)

// The descriptors that the process may open are divided between connections and files, so that
// neither takes all of them. Connections get half of them, or up to three quarters if the user
// asks for more; files get the rest.

// shared returns how many of limit descriptors are for connections and files together.
func shared(limit int) int {
	left := max(limit-ownDescriptors, 0)
	return left - min(mostForCalls, left/callsPart) - callbacksWithin(limit)
}

// callbacksWithin returns how many connections to clients there may be.
func callbacksWithin(limit int) int {
	return min(mostForCallbacks, max(limit-ownDescriptors, callbacksPart)/callbacksPart)
}

// seatsWithin returns how many connections there may be if the user wants this many; wanted 0
// means the default.
func seatsWithin(limit, wanted int) int {
	if wanted == 0 {
		return min(seatsIn(shared(limit)/2), mostConnections)
	}
	return min(wanted, seatsIn(shared(limit)/4*3))
}

// seatsIn returns the number of connections for n descriptors, with room for connections that are
// being closed.
func seatsIn(n int) int {
	seats := n - census.Spare(0)
	for seats+census.Spare(seats) > n {
		seats = n - census.Spare(seats)
	}
	return max(seats, 1)
}

// descriptorsForFiles returns how many descriptors the file systems may hold between calls,
// beside this many connections.
func descriptorsForFiles(limit, connections int) int {
	return min(max(shared(limit)-connections-census.Spare(connections), 0), mostForFiles)
}

// descriptorLimit returns RLIMIT_NOFILE. Go's runtime has already raised it as far as possible.
func descriptorLimit() int {
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &r) != nil {
		return 1024
	}
	return int(min(r.Cur, 1<<30))
}
