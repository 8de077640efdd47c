package local

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// durability says how far the changes of an inode are on stable storage: data, attributes and
// names alike, through whichever FS they came. Callers that want them there at the same time share
// one call: while one runs, the changes that come meanwhile gather for the next.
type durability struct {
	mu      sync.Mutex
	running chan struct{} // closed when the call that runs ends; nil where none runs
	waiting int           // callers
	changes uint64        // so far
	stable  uint64        // changes that are on stable storage, or lost and said to be
	// failed is the outcome of the last call that failed.
	failed atomic.Pointer[SyncError]
	// confirmed is how many syncs of the file system had failed when it was last made sure
	// that one for this node says the truth (syncAndConfirm). It is the running call's.
	confirmed uint64
	// writers are the nodes through which data was stored that is not known to be stable. The
	// kernel tells a failure to those descriptors that were open when it came.
	writers []*node
}

// A mark is taken before something is changed that is to be durable. It remembers the last
// sync that had failed by then.
//
// The kernel tells a failure once, and it does not tell which data is lost: a call that fails
// after the mark may have taken the change with it, and the next call finds nothing left to
// do. So any failure after the mark is the change's, whichever caller made the call.
type mark struct {
	d      *durability
	n      *node // whose d is; nil: the FS's, for what cannot be synced by itself
	failed *SyncError
}

// mark is taken before n is changed.
func (n *node) mark() mark {
	m := mark{d: &n.inode.durability, n: n}
	if n.typ != vfs.Regular && n.typ != vfs.Directory {
		m.d, m.n = &n.fs.whole, nil
	}
	m.failed = m.d.failed.Load()
	return m
}

// durable returns when the changes made to what the marks were taken of are durable, at once
// where the FS or the caller does not ask for that. The caller holds the nodes. A removal or a
// rename marks its directories; what makes a file marks its directory, and the file as well
// unless the file system's log holds both in one transaction.
func (fs *FS) durable(op *vfs.Op, first mark, others ...mark) error {
	if !fs.cfg.Sync || op.Async {
		return nil
	}
	errs := make(chan error, 2)
	for _, m := range others {
		go func() { errs <- fs.syncChange(m) }()
	}
	err := fs.syncChange(first)
	for range others {
		if other := <-errs; err == nil {
			err = other
		}
	}
	return err
}

// syncChange makes a change of attributes or of names durable. It counts as made now: a call
// that runs already may miss it.
func (fs *FS) syncChange(m mark) error {
	m.d.mu.Lock()
	m.d.changes++
	m.d.mu.Unlock()
	return fs.syncSince(m)
}

// syncSince makes everything durable that was changed so far, or returns how a sync since the
// mark failed.
func (fs *FS) syncSince(m mark) error {
	d := m.d
	d.mu.Lock()
	defer d.mu.Unlock()
	for target := d.changes; ; {
		if failed := d.failed.Load(); failed != m.failed {
			return failed
		}
		if d.stable >= target {
			return nil
		}
		if running := d.running; running != nil {
			d.waiting++
			d.mu.Unlock()
			<-running
			d.mu.Lock()
			d.waiting--
			continue
		}
		fs.syncLocked(m)
	}
}

// syncLocked makes one call for all changes so far. d.mu is locked, but not during the call.
func (fs *FS) syncLocked(m mark) {
	d := m.d
	running, upTo := make(chan struct{}), d.changes
	d.running = running
	others := d.holdWritersLocked(m.n)
	d.mu.Unlock()
	call, err := fs.syncNode(m.n, d)
	for _, n := range others {
		if f := n.files.held(true, n.fs.nodes.round.Load()); f != nil {
			if otherErr := n.fs.syncAndConfirm(Fsync, f.fd, d, n, f.fd); otherErr != nil {
				call, err = Fsync, otherErr
			}
			f.put()
		}
		n.put()
	}
	d.mu.Lock()
	if err != nil {
		// What came while the call ran may be lost with it. Every client that wrote learns
		// of it before any caller hears of the failure.
		failed := &SyncError{Call: call, After: d.stable, UpTo: d.changes, Err: err}
		if m.n != nil {
			failed.File = m.n.handle
		}
		fs.device.lost()
		d.failed.Store(failed)
		upTo = d.changes
	}
	d.stable = upTo
	if d.stable == d.changes {
		d.unlistLocked()
	}
	d.running = nil
	close(running)
}

// holdWritersLocked returns the writers but n, each with a reference.
func (d *durability) holdWritersLocked(n *node) (others []*node) {
	for _, w := range d.writers {
		if w != n && w.hold() {
			others = append(others, w)
		}
	}
	return others
}

// wrote is called when data was stored in n that is still to be synced.
func (n *node) wrote() {
	d := &n.inode.durability
	d.mu.Lock()
	d.changes++
	n.unsynced.lastWrite.Store(n.fs.nodes.round.Load())
	if !n.unsynced.listed.Load() {
		d.writers = append(d.writers, n)
		n.fs.unsynced.add(n)
	}
	d.mu.Unlock()
	if n.fs.unsynced.count.Load() > n.fs.manyUnsynced() {
		n.fs.wakeFlusher()
	}
}

// unlistLocked is called when nothing is left to sync.
func (d *durability) unlistLocked() {
	for _, n := range d.writers {
		n.fs.unsynced.remove(n)
	}
	clear(d.writers)
	d.writers = d.writers[:0]
}

// forgetData is for a node that is let go, and for one whose file is gone: then nothing is left to
// sync.
func (n *node) forgetData() {
	d := &n.inode.durability
	d.mu.Lock()
	defer d.mu.Unlock()
	if n.inode.gone.Load() {
		d.stable = d.changes
		d.unlistLocked()
	} else if i := slices.Index(d.writers, n); i >= 0 {
		d.writers = slices.Delete(d.writers, i, i+1)
		n.fs.unsynced.remove(n)
	}
}

// dirty says that changes are not known to be on stable storage.
func (d *durability) dirty() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stable < d.changes || d.running != nil
}
