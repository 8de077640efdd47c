package local

import (
	"math"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// sweepEvery is the time between two rounds of the sweeper. The others are numbers of rounds.
const (
	sweepEvery     = time.Second
	closeAfter     = 2  // rounds without use after which open files are closed
	syncAfter      = 30 // rounds after the last write after which unsynced data is synced
	forgetAfter    = 60 // rounds without use after which nodes are removed from the cache
	lookEveryRound = 5  // rounds between checks for files removed and directories moved by local programs
)

// sweep is the sweeper's goroutine. Every second it wakes the flusher and closes idle descriptors,
// because an open descriptor keeps a removed file's space, makes exec of the file fail with ETXTBSY,
// and prevents leases of local programs on the file (fcntl(2)).
func (fs *FS) sweep() {
	t := time.NewTicker(sweepEvery)
	defer t.Stop()
	for {
		select {
		case <-fs.stop:
			return
		case <-t.C:
			fs.sweepOnce()
			fs.wakeFlusher()
		}
	}
}

func (fs *FS) sweepOnce() {
	round := fs.nodes.round.Add(1)
	if !fs.bounded && round%lookEveryRound == 0 {
		fs.moves.Add(1)
	}
	var st unix.Stat_t
	forgettable := false
	fs.nodes.each(func(n *node) {
		idle := roundsSince(round, n.used.Load())
		n.dropIdle(closeAfter)
		if fs.kind.links && idle > 0 && round%lookEveryRound == 0 &&
			unix.Fstat(n.fd, &st) == nil && st.Nlink == 0 {
			if fs.nodes.forget(n) {
				n.forgetData()
			}
			return
		}
		// An unused node has two references now: the cache's, and that of nodes.each.
		forgettable = forgettable || idle >= forgetAfter && n != fs.root && n.refs.Load() == 2
	})
	if forgettable {
		fs.nodes.shrink(math.MaxInt, forgetAfter)
	}
	if fs.kind.reserves {
		fs.lookAtReserve()
	}
	var sfs unix.Statfs_t
	if fs.kind.memory && round%lookEveryRound == 0 && unix.Fstatfs(fs.mount, &sfs) == nil {
		fs.reads.Store(uint32(readKindOf(&sfs))) // a remount may have changed the mount's options
	}
	// The FS's part of the budget may have shrunk, because another FS joined or SetLimit was called.
	fs.makeRoomToOpen()
	if over := fs.nodes.count.Load() - fs.maxNodes(); over > 0 {
		fs.nodes.shrink(int(over), 2, 1, 0)
	}
}

// counters counts what is open and remembered, in order to limit it, and some events, for tests.
type counters struct {
	open                                     atomic.Int64  // files open for data
	pinned                                   atomic.Int64  // open descriptors in use by vfs.Files or claims
	streams                                  atomic.Int64  // open listings of directories
	names                                    atomic.Int64  // names remembered
	switches, switchFailures, threadsRetired atomic.Uint64 // of threads to callers' identities
	verdicts, verdictsRemembered             atomic.Uint64
	syncs, syncFailures                      atomic.Uint64
	climbs                                   atomic.Uint64
}
