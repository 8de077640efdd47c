package server

import (
	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/internal/census"
)

const (
	// ownDescriptors are the daemon's: listeners, logs, the state directory,
	// metrics, the runtime's.
	ownDescriptors = 64
	// mostForCalls is what calls may hold while they run; callsPart bounds that
	// to one in so many.
	mostForCalls, callsPart = 1024, 16
	// mostForCallbacks is how many connections to clients of NFSv4.0 there are;
	// callbacksPart bounds them to one in so many.
	mostForCallbacks, callbacksPart = 256, 64
	// mostForFiles is what the file systems make use of at most: they look at
	// each every second.
	mostForFiles = 1 << 17
	// mostConnections is what there are of them where the user does not say:
	// an idle one takes some 10 KiB.
	mostConnections = 32768
)

// The descriptors that the process may have open are shared out, so that neither
// many files in use nor many peers stop the other. Connections get half of them, or
// up to three quarters where the user asks for more; files get the rest.

// shared is what there is of limit descriptors for connections and files together.
func shared(limit int) int {
	left := max(limit-ownDescriptors, 0)
	return left - min(mostForCalls, left/callsPart) - callbacksWithin(limit)
}

// callbacksWithin is how many connections to clients there may be.
func callbacksWithin(limit int) int {
	return min(mostForCallbacks, max(limit-ownDescriptors, callbacksPart)/callbacksPart)
}

// seatsWithin is how many connections there may be where the user wants so many, 0
// for as many as usual.
func seatsWithin(limit, wanted int) int {
	if wanted == 0 {
		return min(seatsIn(shared(limit)/2), mostConnections)
	}
	return min(wanted, seatsIn(shared(limit)/4*3))
}

// seatsIn is how many connections n descriptors are enough for, with those that are
// being closed.
func seatsIn(n int) int {
	seats := n - census.Spare(0)
	for seats+census.Spare(seats) > n {
		seats = n - census.Spare(seats)
	}
	return max(seats, 1)
}

// descriptorsForFiles is how many the file systems of the process may hold between
// calls, beside so many connections.
func descriptorsForFiles(limit, connections int) int {
	return min(max(shared(limit)-connections-census.Spare(connections), 0), mostForFiles)
}

// descriptorLimit is RLIMIT_NOFILE. Go's runtime has raised it as far as it may.
func descriptorLimit() int {
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &r) != nil {
		return 1024
	}
	return int(min(r.Cur, 1<<30))
}
