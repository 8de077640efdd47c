package local

import (
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Descriptors is a budget: the number of descriptors that the FSs of a process may keep open
// between calls, for nodes (O_PATH), for data and for listings. Each FS has an equal part and
// cannot take another's. So a client that uses up one export's part leaves the parts of the other
// exports. Descriptors that are open only during a call do not count.
//
// Its methods may be called from any goroutine.
type Descriptors struct {
	part atomic.Int64 // number of descriptors that each FS may keep open

	mu      sync.Mutex
	limit   int
	members map[*FS]struct{}
}

// NewDescriptors returns a budget of the given number of descriptors for all FSs that use it.
func NewDescriptors(limit int) *Descriptors {
	return &Descriptors{limit: limit, members: make(map[*FS]struct{})}
}

// Limit returns the size of the budget.
func (d *Descriptors) Limit() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.limit
}

// SetLimit changes the size of the budget. If the FSs have more open than the new size, they close
// the surplus within seconds.
func (d *Descriptors) SetLimit(limit int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.limit = limit
	if n := len(d.members); n > 0 {
		d.part.Store(int64(limit / n))
	}
}

// Held returns the number of descriptors of the budget that are open now.
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
	// minPart is the number of descriptors that an FS needs at least.
	minPart = 32
	// fixedDescriptors is an upper bound of the number of descriptors that an FS always has open: for
	// its mount, /proc and the index.
	fixedDescriptors = 4
	// maxDescriptors is the largest default budget. There is such a limit because the sweeper
	// visits each open file every second.
	maxDescriptors = 1 << 17
)

// processDescriptors is the budget of FSs whose Config has none: half of RLIMIT_NOFILE. The other
// half is for connections and running calls.
var processDescriptors = sync.OnceValue(func() *Descriptors {
	var lim unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &lim) != nil || lim.Cur/2 > maxDescriptors {
		return NewDescriptors(maxDescriptors)
	}
	return NewDescriptors(int(lim.Cur / 2))
})

// join gives fs an equal part of the budget. The parts of the other FSs shrink, and their sweepers
// close the surplus.
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

// Half of an FS's part of the budget is for nodes (files open with O_PATH), half for files open
// for data. Of the second half, files with unsynced data may take an eighth before the FS syncs the
// oldest of them, and a quarter before a writer has to wait for such a sync. Files that clients have
// open may take five eighths. The FS can close only the files in the rest to make room.

func (fs *FS) part() int64 { return fs.descriptors.part.Load() - fixedDescriptors }

// maxNodes returns the limit of nodes, each of which has an O_PATH descriptor.
func (fs *FS) maxNodes() int64 { return fs.part() / 2 }

// maxOpen returns the limit of descriptors that are open for data or for listings.
func (fs *FS) maxOpen() int64 { return fs.part() / 2 }

// If more than manyUnsynced files have data that is not on stable storage, the flusher syncs the
// oldest. If mostUnsynced files have such data, a writer syncs some of the oldest before it
// writes to a file that has none (makeRoomForData).
func (fs *FS) manyUnsynced() int64 { return fs.maxOpen() / 8 }
func (fs *FS) mostUnsynced() int64 { return fs.maxOpen() / 4 }

// maxPinned returns the limit of descriptors that vfs.Files and claims keep open. Many Files can
// share one descriptor.
func (fs *FS) maxPinned() int64 { return fs.maxOpen() * 5 / 8 }

// opened returns the number of descriptors that are open for data or for listings.
func (fs *FS) opened() int64 { return fs.stats.open.Load() + fs.stats.streams.Load() }

// makeRoomToOpen closes idle files and listings if the FS is at its limit. It is called before a
// descriptor is opened that stays open after the call. It may block.
func (fs *FS) makeRoomToOpen() {
	if most := fs.maxOpen(); fs.opened() >= most {
		fs.closeSome(most/32 + 1)
	}
}

// withRoom calls open, which returns a new descriptor. If the process has no descriptors left,
// withRoom closes some and calls open again.
func (fs *FS) withRoom(open func() (int, error)) (int, error) {
	fd, err := open()
	if outOfDescriptors(err) {
		fs.makeRoom()
		fd, err = open()
	}
	return fd, err
}

// reopenWithRoom calls reopen with the daemon's identity.
func (fs *FS) reopenWithRoom(fd, flags int) (int, error) {
	return fs.withRoom(func() (int, error) { return fs.reopen(fd, flags) })
}

// openName opens name in the directory d with O_PATH.
func (fs *FS) openName(d *node, name []byte) (int, error) {
	return fs.withRoom(func() (int, error) { return sysOpenat2(d.fd, name, unix.O_PATH, 0, unix.RESOLVE_NO_XDEV) })
}

// makeRoom is called when the process has no descriptors left. It closes idle files, listings and
// nodes. If no file or listing is idle, it syncs one of the files with the oldest unsynced data,
// so that it can be closed.
func (fs *FS) makeRoom() {
	if fs.closeSome(1024) == 0 {
		fs.syncOldest()
	}
	fs.nodes.shrink(64, 2, 1, 0)
}

// closeSome closes files and listings that no caller uses, first those idle for the longest time,
// until it has closed the number in want, or more. It returns how many it closed.
func (fs *FS) closeSome(want int64) (closed int64) {
	for patience := closeAfter; patience >= 0 && closed < want; patience-- {
		fs.nodes.each(func(n *node) {
			if closed < want {
				closed += int64(n.dropIdle(uint32(patience)))
			}
		})
	}
	return closed
}
