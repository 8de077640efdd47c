package local

import (
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Descriptors is a budget: the number of descriptors that the FSs of a process may keep open
// between calls, for nodes (O_PATH), for data and for listings. Any goroutine may call its methods.
//
// A small part of the budget, the floor, is kept for each FS. Of the rest, an FS may use half of what
// the other FSs leave; so one FS can use most of what the others do not need, and something
// is always left for another one. An FS that is alone may use the whole budget.
type Descriptors struct {
	// Full, if not nil, is called when an Open is refused because too many files are open. It is set
	// before the first FS uses the budget. It must not wait.
	Full func()

	refused atomic.Uint64
	mu      sync.Mutex
	limit   int
	members map[*holdings]struct{}
}

// NewDescriptors returns a budget of the given number of descriptors for all FSs that use it.
func NewDescriptors(limit int) *Descriptors {
	return &Descriptors{limit: limit, members: make(map[*holdings]struct{})}
}

// Limit returns the size of the budget.
func (d *Descriptors) Limit() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.limit
}

// SetLimit changes the size of the budget. The FSs close a surplus within seconds.
func (d *Descriptors) SetLimit(limit int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.limit = limit
	d.divideLocked()
}

// Refused returns how many times an Open was refused because too many files were open.
func (d *Descriptors) Refused() uint64 { return d.refused.Load() }

// refuse counts an Open that is refused because too many files are open.
func (d *Descriptors) refuse() {
	d.refused.Add(1)
	if d.Full != nil {
		d.Full()
	}
}

// divide computes anew how many descriptors each FS may keep open. Each FS calls it every second and
// when it needs more descriptors than it may have.
func (d *Descriptors) divide() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.divideLocked()
}

func (d *Descriptors) divideLocked() {
	n := int64(len(d.members))
	if n == 0 {
		return
	}
	limit := int64(d.limit)
	floor := min(max(limit/(floorsPart*n), minPart), limit/n, maxFloor)
	if n == 1 {
		floor = limit
	}
	shared, above := limit-floor*n, int64(0)
	for h := range d.members {
		above += max(h.held()-floor, 0)
	}
	for h := range d.members {
		others := above - max(h.held()-floor, 0)
		h.allowed.Store(floor + max(shared-others, 0)/2)
	}
}

// Held returns the number of descriptors of the budget that are open now.
func (d *Descriptors) Held() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	held := int64(0)
	for h := range d.members {
		held += h.held()
	}
	return int(held)
}

const (
	// minPart is the number of descriptors that an FS needs at least.
	minPart = 32
	// fixedDescriptors is the number that an FS always has open, or more: mount, /proc and index.
	fixedDescriptors = 4
	// The floors of all FSs together are 1/floorsPart of the budget, or more if each FS then had fewer
	// than minPart. The floor of one FS is at most maxFloor.
	floorsPart, maxFloor = 16, 1024
	// maxIdleNodes is the largest number of nodes of an FS that no client has open. Each takes 1.3 KiB of
	// memory, and keeps the file's inode in the kernel's memory.
	maxIdleNodes = 1 << 16
)

// processDescriptors is the budget of FSs whose Config has none: half of RLIMIT_NOFILE. The other
// half is for connections and running calls.
var processDescriptors = sync.OnceValue(func() *Descriptors {
	var lim unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &lim) != nil {
		lim.Cur = 1024
	}
	return NewDescriptors(int(min(lim.Cur, 1<<30) / 2))
})

// join lets the FS of h use the budget. The sweepers of the other FSs close their surplus.
func (d *Descriptors) join(h *holdings) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := len(d.members) + 1
	if d.limit/all < minPart {
		return fmt.Errorf("%d descriptors are too few for %d file systems, which need %d each: raise the limit of open files (ulimit -n, or LimitNOFILE= in the unit) or serve fewer directories", d.limit, all, minPart)
	}
	d.members[h] = struct{}{}
	d.divideLocked()
	return nil
}

func (d *Descriptors) leave(h *holdings) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.members, h)
	d.divideLocked()
}

// holdings counts the descriptors that one FS has open, and says how many it may have. Any goroutine
// may call its methods.
//
// An FS cannot close the descriptors that are pinned: those of nodes that clients have open, of claims,
// and those for data that are kept for vfs.Files (openFile.kept). At most three quarters of the
// descriptors that the FS may have are pinned. Half of the others is for further nodes (files open with
// O_PATH), half for files open for data and for listings. Of the second half, files with unsynced data
// may take an eighth before the FS syncs the oldest of them, and a quarter before a writer has to wait
// for such a sync.
type holdings struct {
	budget                  *Descriptors
	allowed                 atomic.Int64  // number of descriptors that the FS may have (Descriptors.divide)
	nodes                   *atomic.Int64 // nodes; each has an O_PATH descriptor
	data, listings          atomic.Int64  // descriptors that are open for data, and for listings
	pinnedNodes, pinnedData atomic.Int64
}

// held returns the number of descriptors of the budget that the FS has open.
func (h *holdings) held() int64 { return fixedDescriptors + h.nodes.Load() + h.open() }

// open returns the number of descriptors that are open for data or for listings.
func (h *holdings) open() int64 { return h.data.Load() + h.listings.Load() }

// pinned returns the number of pinned descriptors.
func (h *holdings) pinned() int64 { return h.pinnedNodes.Load() + h.pinnedData.Load() }

// most returns how many descriptors the FS may have, beside those that it always has.
func (h *holdings) most() int64 { return h.allowed.Load() - fixedDescriptors }

// mostPinned returns the limit of pinned descriptors.
func (h *holdings) mostPinned() int64 { return h.most() / 4 * 3 }

// unpinned returns the limit of descriptors that are not pinned, for nodes and for data each.
func (h *holdings) unpinned() int64 { return max(h.most()-h.pinned(), 0) / 2 }

// mostNodes returns the limit of nodes.
func (h *holdings) mostNodes() int64 { return h.pinnedNodes.Load() + min(h.unpinned(), maxIdleNodes) }

// mostOpen returns the limit of descriptors that are open for data or for listings.
func (h *holdings) mostOpen() int64 { return h.pinnedData.Load() + h.unpinned() }

// If more than manyUnsynced files have data that is not on stable storage, the flusher syncs the
// oldest. If mostUnsynced files have such data, a writer syncs some of the oldest before it
// writes to a file that has none (makeRoomForData).
func (h *holdings) manyUnsynced() int64 { return h.unpinned() / 8 }
func (h *holdings) mostUnsynced() int64 { return h.unpinned() / 4 }

// pin adds one to count, which is pinnedNodes or pinnedData. ErrDelay: the limit is reached.
func (h *holdings) pin(count *atomic.Int64) error {
	count.Add(1)
	if h.pinned() <= h.mostPinned() {
		return nil
	}
	h.budget.divide() // the other FSs may need less than before
	if h.pinned() <= h.mostPinned() {
		return nil
	}
	count.Add(-1)
	h.budget.refuse()
	return vfs.ErrDelay
}
