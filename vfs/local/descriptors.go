package local

import (
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Descriptors is a budget: the number of descriptors that the FSs of a process may keep open
// between calls, for nodes (O_PATH), for data and for listings. Each FS has an equal part, so a
// client cannot use up the parts of other exports. Any goroutine may call its methods.
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

// SetLimit changes the size of the budget. The FSs close a surplus within seconds.
func (d *Descriptors) SetLimit(limit int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.limit = limit
	d.divideLocked()
}

// divideLocked gives each FS an equal part of the budget.
func (d *Descriptors) divideLocked() { d.part.Store(int64(d.limit / max(len(d.members), 1))) }

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
	// fixedDescriptors is the number that an FS always has open, or more: mount, /proc and index.
	fixedDescriptors = 4
	// maxDescriptors is the largest default budget, because the sweeper visits each file every second.
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

// join gives fs an equal part of the budget. The sweepers of the other FSs close their surplus.
func (d *Descriptors) join(fs *FS) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := len(d.members) + 1
	if d.limit/all < minPart {
		return fmt.Errorf("%d descriptors are too few for %d file systems, which need %d each: raise the limit of open files (ulimit -n, or LimitNOFILE= in the unit) or serve fewer directories", d.limit, all, minPart)
	}
	d.members[fs] = struct{}{}
	d.divideLocked()
	return nil
}

func (d *Descriptors) leave(fs *FS) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.members, fs)
	d.divideLocked()
}

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

// makeRoom closes idle files, listings and nodes when the process has no descriptors left. If no file
// or listing is idle, it syncs one of the files with the oldest unsynced data, to close it.
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

// dropIdle closes n's descriptors for data and listings that are not pinned and were not used for
// this number of rounds of the sweeper (seconds), and returns how many. The writable descriptor
// stays open while a caller uses it or n has unsynced data.
func (n *node) dropIdle(patience uint32) (closed int) {
	o, round := &n.files, n.fs.nodes.round.Load()
	o.mu.Lock()
	idle := func(f *openFile) bool {
		return f != nil && f.pins == 0 && roundsSince(round, f.used.Load()) >= patience
	}
	var ro, rw *openFile
	if idle(o.ro) {
		ro, o.ro = o.ro, nil
	}
	// A writer calls wrote before it releases its reference. So while the writable file is in use,
	// n may soon have unsynced data.
	if idle(o.rw) && o.rw.refs.Load() == 1 && !n.unsynced.listed.Load() {
		rw, o.rw = o.rw, nil
	}
	o.mu.Unlock()
	return putFiles(ro, rw) + n.streams.drop(round, patience)
}

// putFiles releases a reference to each file that is not nil, and returns how many there were.
func putFiles(files ...*openFile) (n int) {
	for _, f := range files {
		if f != nil {
			f.put()
			n++
		}
	}
	return n
}

// closeAll releases n's descriptors for data and listings, even if n has unsynced data. Each file is
// closed when its last user has released it.
func (n *node) closeAll() {
	o := &n.files
	o.mu.Lock()
	ro, rw := o.ro, o.rw
	o.ro, o.rw = nil, nil
	o.mu.Unlock()
	putFiles(ro, rw)
	n.streams.drop(0, 0)
}

// letGo closes the descriptors of a file that lost a name, possibly its last, so that the file
// system can free the file's space when the last call or caller that uses the file has finished.
func (fs *FS) letGo(v *named) {
	n := v.n
	if v.nameless() {
		fs.nodes.drop(n)
	} else {
		n.dropIdle(0)
	}
}

// closing closes descriptors on a goroutine of its own, because a call with Op.Try must not wait. The
// last close of a file may wait for the disk, to free a removed file's blocks, or for a file server.
type closing struct {
	mu      sync.Mutex
	queue   []func()
	running bool           // true while the closing goroutine runs
	ended   sync.WaitGroup // waits until that goroutine has called every queued function
}

// add queues f for the closing goroutine. It never waits.
func (c *closing) add(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue = append(c.queue, f)
	if !c.running {
		c.running = true
		c.ended.Go(c.run)
	}
}

func (c *closing) run() {
	for {
		c.mu.Lock()
		queue := c.queue
		c.queue = nil
		c.running = len(queue) > 0
		c.mu.Unlock()
		if len(queue) == 0 {
			return
		}
		for _, f := range queue {
			f()
		}
	}
}
