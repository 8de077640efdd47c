package local

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs/local/index"
)

// sweepEvery is the time between two rounds of the sweeper. The other intervals are numbers of
// rounds.
const (
	sweepEvery     = time.Second
	closeAfter     = 2  // rounds without use after which open files are closed
	syncAfter      = 30 // rounds after the last write after which unsynced data is synced
	forgetAfter    = 60 // rounds without use after which nodes are removed from the cache
	lookEveryRound = 5  // rounds between checks for files removed and directories moved by local programs
)

// sweep is the sweeper's goroutine. Every second it calls sweepOnce and wakes the flusher, until
// Close. sweepOnce closes idle descriptors, because an open descriptor keeps a removed file's
// space, makes exec of the file fail with ETXTBSY, and prevents local programs from getting leases
// on the file (fcntl(2)).
func (fs *FS) sweep() {
	defer close(fs.sweeperEnd)
	var flushing sync.WaitGroup
	flushing.Go(fs.flusher)
	defer flushing.Wait()
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
			fstat(n.fd, &st) == nil && st.Nlink == 0 {
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
	// The FS's part of the budget of descriptors may have shrunk, because another FS joined or
	// SetLimit was called.
	fs.makeRoomToOpen()
	if over := fs.nodes.count.Load() - fs.maxNodes(); over > 0 {
		fs.nodes.shrink(int(over), 2, 1, 0)
	}
}

// counters holds the values from which FS.Stats makes a Stats.
type counters struct {
	open                                     atomic.Int64 // files open for data
	pinned                                   atomic.Int64 // open descriptors in use by vfs.Files or claims
	streams                                  atomic.Int64 // open listings of directories
	names                                    atomic.Int64 // names remembered
	switches, switchFailures, threadsRetired atomic.Uint64
	verdicts, verdictsRemembered             atomic.Uint64
	syncs, syncFailures                      atomic.Uint64
	climbs                                   atomic.Uint64
}

// Stats is a snapshot of an FS's counters.
type Stats struct {
	// Nodes counts the descriptors open with O_PATH, OpenFiles those open for data, and Listings
	// those open to list a directory. Unsynced counts the files that have data which is not on
	// stable storage. Pinned counts those of OpenFiles that vfs.Files or claims keep open.
	Nodes, OpenFiles, Listings, Unsynced, Pinned int64
	// Switches counts the attempts to switch a thread to a caller's identity, SwitchFailures the
	// failed attempts. ThreadsRetired counts the threads that ended because they could not be
	// switched back.
	Switches, SwitchFailures, ThreadsRetired uint64
	// Verdicts counts the checks of a caller's rights that the kernel made, VerdictsRemembered the
	// checks that were answered from memory.
	Verdicts, VerdictsRemembered uint64
	// Syncs counts sync calls, SyncFailures the failed ones.
	Syncs, SyncFailures uint64
	// Searches counts walks of the whole tree by the index.
	Searches uint64
	// Climbs counts how often the FS went up from a directory, level by level, to check that it lies
	// below the root.
	Climbs uint64
	// Forgotten counts names that the index dropped, because too many waited to be written.
	Forgotten uint64
}

// Stats reads the counters.
func (fs *FS) Stats() Stats {
	c := &fs.stats
	var searches, forgotten uint64
	if x, ok := fs.resolver.(*index.Index); ok {
		searches, forgotten = x.Stats()
	}
	return Stats{
		Nodes: fs.nodes.count.Load(), OpenFiles: c.open.Load(), Listings: c.streams.Load(), Unsynced: fs.unsynced.count.Load(),
		Pinned:   c.pinned.Load(),
		Switches: c.switches.Load(), SwitchFailures: c.switchFailures.Load(), ThreadsRetired: c.threadsRetired.Load(),
		Verdicts: c.verdicts.Load(), VerdictsRemembered: c.verdictsRemembered.Load(),
		Syncs: c.syncs.Load(), SyncFailures: c.syncFailures.Load(),
		Searches: searches, Climbs: c.climbs.Load(), Forgotten: forgotten,
	}
}
