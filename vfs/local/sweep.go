package local

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// The sweeper's patience, in its rounds of a second.
const (
	sweepEvery     = time.Second
	closeAfter     = 2  // an open file that no caller used
	syncAfter      = 30 // data that no client committed, after the last write
	forgetAfter    = 60 // a node that no caller asked for
	lookEveryRound = 5  // whether others have removed a file that is held, or moved a directory
)

// sweep lets go of what is idle: a descriptor keeps a removed file's space,
// makes exec fail with ETXTBSY, and refuses leases to others.
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
		n.dropIdle(round, closeAfter)
		n.streams.drop(round, closeAfter)
		if fs.kind.links && idle > 0 && round%lookEveryRound == 0 &&
			fstat(n.fd, &st) == nil && st.Nlink == 0 {
			if fs.nodes.forget(n) {
				n.forgetData()
			}
			return
		}
		// Two references: the cache's, and each's for us.
		forgettable = forgettable || idle >= forgetAfter && n != fs.root && n.refs.Load() == 2
	})
	if forgettable {
		fs.nodes.shrink(math.MaxInt, forgetAfter)
	}
	if fs.kind.reserves {
		fs.lookAtReserve()
	}
	// Its part may have become smaller.
	fs.makeRoomToOpen()
	if over := fs.nodes.count.Load() - fs.maxNodes(); over > 0 {
		fs.nodes.shrink(int(over), 2, 1, 0)
	}
}

// counters are what the FS counts about itself.
type counters struct {
	open                                     atomic.Int64 // files open for data
	pinned                                   atomic.Int64 // of them, those that callers hold open
	streams                                  atomic.Int64 // listings of directories
	names                                    atomic.Int64 // names remembered
	switches, switchFailures, threadsRetired atomic.Uint64
	verdicts, verdictsRemembered             atomic.Uint64
	syncs, syncFailures                      atomic.Uint64
	searches, forgotten, climbs              atomic.Uint64
}

// Stats are an FS's counters.
type Stats struct {
	// Nodes are files held open by path, OpenFiles those for data, Listings
	// directories open to be listed. Of OpenFiles, Unsynced have data that is
	// not on stable storage, and Pinned are held by vfs.Files.
	Nodes, OpenFiles, Listings, Unsynced, Pinned int64
	// Switches of a thread to a caller and back; SwitchFailures of them did
	// not come about, and ThreadsRetired could not be switched back.
	Switches, SwitchFailures, ThreadsRetired uint64
	// Verdicts were asked of the kernel, VerdictsRemembered from memory.
	Verdicts, VerdictsRemembered uint64
	// Syncs are calls that made something durable.
	Syncs, SyncFailures uint64
	// Searches are walks of the tree for a file that the index had lost.
	Searches uint64
	// Climbs are ways up from a directory to the root, to know that it lies below.
	Climbs uint64
	// Forgotten is what the index learnt while it could not write for long.
	Forgotten uint64
}

// Stats reads the counters.
func (fs *FS) Stats() Stats {
	c := &fs.stats
	return Stats{
		Nodes: fs.nodes.count.Load(), OpenFiles: c.open.Load(), Listings: c.streams.Load(), Unsynced: fs.unsynced.count.Load(),
		Pinned:   c.pinned.Load(),
		Switches: c.switches.Load(), SwitchFailures: c.switchFailures.Load(), ThreadsRetired: c.threadsRetired.Load(),
		Verdicts: c.verdicts.Load(), VerdictsRemembered: c.verdictsRemembered.Load(),
		Syncs: c.syncs.Load(), SyncFailures: c.syncFailures.Load(),
		Searches: c.searches.Load(), Climbs: c.climbs.Load(), Forgotten: c.forgotten.Load(),
	}
}
