package local

import (
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Descriptors is how many descriptors the FSs of a process may hold open
// between calls: for files that they hold by path, for data and for listings.
// Each FS has an equal part and none takes another's, so that a client that
// uses up one export's leaves the others what they need. What a call holds only
// while it runs is not in it.
//
// Its methods may be called from any goroutine.
type Descriptors struct {
	part atomic.Int64 // of one FS

	mu      sync.Mutex
	limit   int
	members map[*FS]struct{}
}

// NewDescriptors is a budget of limit descriptors.
func NewDescriptors(limit int) *Descriptors {
	return &Descriptors{limit: limit, members: make(map[*FS]struct{})}
}

// Limit is how many there are.
func (d *Descriptors) Limit() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.limit
}

// SetLimit makes the budget another one. What the FSs hold beyond it they let go of within
// seconds.
func (d *Descriptors) SetLimit(limit int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.limit = limit
	if n := len(d.members); n > 0 {
		d.part.Store(int64(limit / n))
	}
}

// Held is how many of them are held now.
func (d *Descriptors) Held() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	held := int64(0)
	for fs := range d.members {
		held += fixedDescriptors + fs.nodes.count.Load() + fs.opened()
	}
	return int(held)
}

const (
	// minPart is what an FS needs to work at all.
	minPart = 32
	// fixedDescriptors are an FS's own: its mount, /proc, and an index.
	fixedDescriptors = 4
	// maxDescriptors is what is made use of at most where the caller does not
	// say: the sweeper looks at each every second.
	maxDescriptors = 1 << 17
)

// processDescriptors is for FSs that are given no budget: half of what the
// process may open, RLIMIT_NOFILE. The rest is left to connections, and to what
// calls hold while they run.
var processDescriptors = sync.OnceValue(func() *Descriptors {
	var lim unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &lim) != nil || lim.Cur/2 > maxDescriptors {
		return NewDescriptors(maxDescriptors)
	}
	return NewDescriptors(int(lim.Cur / 2))
})

// join gives fs a part. Those of the others become smaller: their sweepers let
// go of what is too much.
func (d *Descriptors) join(fs *FS) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := len(d.members) + 1
	if d.limit/all < minPart {
		return fmt.Errorf("%d descriptors are too few for %d file systems, which need %d each: raise the limit of open files (ulimit -n, or LimitNOFILE= in the unit) or serve fewer directories", d.limit, all, minPart)
	}
	d.members[fs] = struct{}{}
	d.part.Store(int64(d.limit / all))
	return nil
}

func (d *Descriptors) leave(fs *FS) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.members, fs)
	if n := len(d.members); n > 0 {
		d.part.Store(int64(d.limit / n))
	}
}

// An FS's part is half for files held by path and half for open ones. Of the
// open ones an eighth may have data that is not on stable storage before the
// oldest of it is synced, and a quarter before a writer has to wait for that. What
// waits for a sync cannot be let go, nor can what callers hold open, which may be
// five eighths: a client of NFSv4 has files open for as long as it likes. At these
// bounds the rest can.

func (fs *FS) part() int64 { return fs.descriptors.part.Load() - fixedDescriptors }

// maxNodes bounds the files held by path.
func (fs *FS) maxNodes() int64 { return fs.part() / 2 }

// maxOpen bounds those open for data, and the listings of directories.
func (fs *FS) maxOpen() int64 { return fs.part() / 2 }

// manyUnsynced is beyond how many files with data that is not on stable storage
// the FS syncs the oldest by itself, and mostUnsynced how many there may be.
func (fs *FS) manyUnsynced() int64 { return fs.maxOpen() / 8 }
func (fs *FS) mostUnsynced() int64 { return fs.maxOpen() / 4 }

// maxPinned is how many descriptors callers may hold open by vfs.Files, however
// many of these there are.
func (fs *FS) maxPinned() int64 { return fs.maxOpen() * 5 / 8 }

// opened is how many files and listings are open.
func (fs *FS) opened() int64 { return fs.stats.open.Load() + fs.stats.streams.Load() }

// makeRoomToOpen is called before something is opened that stays open. It may
// block.
func (fs *FS) makeRoomToOpen() {
	if most := fs.maxOpen(); fs.opened() >= most {
		fs.closeSome(most/32 + 1)
	}
}

// reopenWithRoom is reopen on a thread of the daemon, with room made where the
// process has no descriptors left.
func (fs *FS) reopenWithRoom(fd, flags int) (int, error) {
	again, err := fs.reopen(fd, flags)
	if outOfDescriptors(err) {
		fs.makeRoom()
		again, err = fs.reopen(fd, flags)
	}
	return again, err
}

// makeRoom is for when the process has no descriptors left.
func (fs *FS) makeRoom() {
	if fs.closeSome(1024) == 0 {
		fs.syncOldest()
	}
	fs.nodes.shrink(64, 2, 1, 0)
}

// closeSome closes up to want files and listings that no caller is using, those
// first that have been idle for longer, and returns how many it closed.
func (fs *FS) closeSome(want int64) (closed int64) {
	round := fs.nodes.round.Load()
	for patience := uint32(closeAfter); closed < want; patience-- {
		fs.nodes.each(func(n *node) {
			if closed < want {
				closed += int64(n.dropIdle(round, patience) + n.streams.drop(round, patience))
			}
		})
		if patience == 0 {
			break
		}
	}
	return closed
}
