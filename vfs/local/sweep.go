package local

import (
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
			fs.syncer.wakeFlusher()
		}
	}
}

func (fs *FS) sweepOnce() {
	fs.sweeping.Lock()
	defer fs.sweeping.Unlock()
	round := fs.nodes.round.Add(1)
	if !fs.bounded && round%lookEveryRound == 0 {
		fs.moves.Add(1)
	}
	fs.nodes.sweep(fs.swept, round, fs.sweepNode)
	fs.swept = round
	if fs.kind.reserves {
		fs.lookAtReserve()
	}
	var sfs unix.Statfs_t
	if fs.kind.memory && round%lookEveryRound == 0 && sysFstatfs(fs.mount, &sfs) == nil {
		fs.reads.Store(uint32(readKindOf(&sfs))) // a remount may have changed the mount's options
	}
	// The FS may have fewer descriptors than before, because others need more or SetLimit was called.
	fs.holdings.budget.divide()
	fs.makeRoomToOpen()
	if over := fs.nodes.count.Load() - fs.holdings.mostNodes(); over > 0 {
		fs.nodes.shrink(int(over), 2, 1, 0)
	}
}

// sweepNode closes what n does not need, and returns the number of rounds until its next turn, or 0 if
// n was not used for so long that it shall leave the cache.
func (fs *FS) sweepNode(n *node) uint32 {
	round := fs.nodes.round.Load()
	idle := roundsSince(round, n.used.Load())
	n.dropIdle(closeAfter, false)
	var st unix.Stat_t
	if fs.kind.links && idle > 0 && sysFstat(n.fd, &st) == nil && st.Nlink == 0 {
		if fs.nodes.forget(n) {
			n.forgetData()
			return lookEveryRound
		}
	}
	opened, needed := n.opened()
	switch {
	case opened:
		return 1
	case needed: // the longer it was not used, the later the next turn
		return min(max(idle, lookEveryRound), forgetAfter)
	case idle >= forgetAfter:
		return 0
	}
	return min(lookEveryRound, forgetAfter-idle)
}

// counters counts names that are remembered, in order to limit them, and some events, for tests.
type counters struct {
	nameBytes                    atomic.Int64 // see nameMemory
	verdicts, verdictsRemembered atomic.Uint64
	climbs                       atomic.Uint64
	wholeReads                   atomic.Uint64 // of directories, by namesAhead
}
