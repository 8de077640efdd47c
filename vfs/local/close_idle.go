package local

import (
	"sync"

	"golang.org/x/sys/unix"
)

// makeRoomToOpen closes idle files and listings if the FS is at its limit. It is called before a
// descriptor is opened that stays open after the call. It may block.
func (fs *FS) makeRoomToOpen() {
	h := &fs.holdings
	if h.open() < h.mostOpen() {
		return
	}
	h.budget.divide()
	if most := h.mostOpen(); h.open() >= most {
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
		fs.syncer.syncOldest()
	}
	fs.nodes.shrink(64, 2, 1, 0)
}

// closeSome closes files and listings that no call uses, until it has closed the number in want, or
// more: first those that no vfs.File needs, and of these the ones that were idle for longest. It
// returns how many it closed.
func (fs *FS) closeSome(want int64) (closed int64) {
	for _, needed := range [...]bool{false, true} {
		for patience := closeAfter; patience >= 0 && closed < want; patience-- {
			fs.nodes.each(func(n *node) {
				if closed < want {
					closed += int64(n.dropIdle(uint32(patience), needed))
				}
			})
		}
	}
	return closed
}

// dropIdle closes n's descriptors for data, claims and listings that were not used for this number of
// rounds of the sweeper (seconds), and returns how many. If needed is true, it also closes those that
// vfs.Files need, if they can be opened again. The writable descriptor stays open while a call uses it
// or n has unsynced data, the one for claims while there are claims.
func (n *node) dropIdle(patience uint32, needed bool) (closed int) {
	o, round := &n.files, n.fs.nodes.round.Load()
	o.mu.Lock()
	idle := func(f *openFile, files int) bool {
		return f != nil && (files == 0 || needed && !f.kept) && roundsSince(round, f.used.Load()) >= patience
	}
	var ro, rw, claims *openFile
	if idle(o.ro, o.toRead) {
		ro, o.ro = o.ro, nil
	}
	if idle(o.rw, o.toWrite) && n.isStableLocked() {
		rw, o.rw = o.rw, nil
	}
	if idle(o.claims, 0) {
		claims = o.takeClaimsLocked()
	}
	o.mu.Unlock()
	return putFiles(ro, rw, claims) + n.streams.drop(round, patience)
}

// isStableLocked reports whether no call uses the writable descriptor, which n has, and n has no
// unsynced data. A writer calls wrote before it releases its reference; so while the descriptor is in
// use, n may soon have unsynced data. The caller holds n.files.mu.
func (n *node) isStableLocked() bool {
	return n.files.rw.refs.Load() == 1 && !n.unsynced.listed.Load()
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

// closeAll releases n's descriptors for data, claims and listings, even if n has unsynced data. Each file
// is closed when its last user has released it.
func (n *node) closeAll() {
	o := &n.files
	o.mu.Lock()
	ro, rw, claims := o.ro, o.rw, o.claims
	o.ro, o.rw, o.claims = nil, nil, nil
	o.mu.Unlock()
	putFiles(ro, rw, claims)
	n.streams.drop(0, 0)
}

// letGo closes the descriptors of a file that lost a name, possibly its last, so that the file
// system can free the file's space when the last call or caller that uses the file has finished.
func (fs *FS) letGo(v *named) {
	n := v.n
	if v.nameless() {
		fs.nodes.drop(n)
	} else {
		n.dropIdle(0, false)
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
