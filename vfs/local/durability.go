package local

import (
	"container/list"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// durability tracks which changes of an inode are on stable storage: changes of data, attributes
// and names, through all FSs. Concurrent callers share sync calls: changes that come while one
// call runs are left to the next call.
type durability struct {
	mu      sync.Mutex
	running chan struct{} // closed when the running sync call ends; nil if none runs
	waiting int           // number of callers that wait for the running call
	changes uint64        // number of changes so far
	stable  uint64        // changes up to this number are stable, or lost and reported as lost
	// failed describes the last sync call that failed; nil if none has.
	failed atomic.Pointer[SyncError]
	// confirmed is the number of failed syncs (device.failures) at the last verified sync of this inode
	// (syncAndConfirm). Only the goroutine whose sync call is running uses it.
	confirmed uint64
	// writers are the nodes that stored data which is not known to be stable. All are synced, because
	// the kernel reports a failure only to descriptors that were open when it happened.
	writers []*node
}

// A mark records the last failed sync before a change that is to be durable. The caller takes the
// mark before it makes the change.
//
// The kernel reports a failure once, without saying which data is lost, and the next sync call finds
// nothing left to do. Therefore any failure after the mark counts as a failure of the change, even
// if the sync call was made for another caller.
type mark struct {
	d      *durability
	n      *node // the node of d; nil if d is FS.whole, which is for objects that cannot be synced alone
	failed *SyncError
}

// mark returns a mark for a change of n. It is called before the change.
func (n *node) mark() mark {
	m := mark{d: &n.inode.durability, n: n}
	if n.typ != vfs.Regular && n.typ != vfs.Directory {
		m.d, m.n = &n.fs.whole, nil
	}
	m.failed = m.d.failed.Load()
	return m
}

// durable makes one change durable, and waits for that. If Config.Sync is false, op.Async is set or
// fs.volatile is true, it does nothing. The marks, which the caller took before the change, say what
// to sync: the directories of a removal or a rename; the directory of a creation, and also the new
// file, unless the file system's log holds both in one transaction. The caller has references to the
// marks' nodes.
func (fs *FS) durable(op *vfs.Op, first mark, others ...mark) error {
	if !fs.cfg.Sync || op.Async || fs.volatile {
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

// syncChange makes a change of attributes or names durable. It first counts the change as new,
// because a sync call that already runs may miss it.
func (fs *FS) syncChange(m mark) error {
	m.d.mu.Lock()
	m.d.changes++
	m.d.mu.Unlock()
	return fs.syncSince(m)
}

// syncSince makes all changes so far of m's inode durable, or returns a failure since the mark.
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

// syncLocked syncs all changes so far of m's inode: first through m.n, then through the other nodes
// in d.writers. The caller holds d.mu, which is unlocked during the sync calls.
func (fs *FS) syncLocked(m mark) {
	d := m.d
	running, upTo := make(chan struct{}), d.changes
	d.running = running
	var others []*node
	for _, w := range d.writers {
		if w != m.n && w.hold() {
			others = append(others, w)
		}
	}
	d.mu.Unlock()
	call, err := fs.syncNode(m.n, d)
	for _, n := range others {
		if f := n.held(true); f != nil {
			if otherErr := n.fs.syncAndConfirm(Fsync, f.fd, d, n, f.fd); otherErr != nil {
				call, err = Fsync, otherErr
			}
			f.put()
		}
		n.put()
	}
	d.mu.Lock()
	if err != nil {
		// Changes that came during the call may be lost as well. The verifier changes before any
		// caller learns of the failure, so that every client sends its unstable data again.
		failed := &SyncError{Call: call, After: d.stable, UpTo: d.changes, Err: err}
		if m.n != nil {
			failed.File = m.n.handle
		}
		fs.device.lost()
		for _, w := range d.writers { // of FSs that count as another device, if mountinfo misses a mount
			if w.fs.device != fs.device {
				w.fs.device.lost()
			}
		}
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

// wrote records that data was stored through n and is not synced yet.
func (n *node) wrote() {
	if n.fs.volatile {
		return
	}
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

// unlistLocked empties d.writers. It is called when nothing is left to sync.
func (d *durability) unlistLocked() {
	for _, n := range d.writers {
		n.fs.unsynced.remove(n)
	}
	clear(d.writers)
	d.writers = d.writers[:0]
}

// forgetData removes n from d.writers when the cache drops n. If n's file has no name any more, all
// changes of the inode count as stable, because nothing of the file has to be kept.
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

// dirty reports whether some changes may not be on stable storage.
func (d *durability) dirty() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stable < d.changes || d.running != nil
}

// unsyncedFiles is the list of nodes with data that is not on stable storage; the one that has
// waited longest is first. Each stays in the cache and keeps its writable descriptor open, because
// only that descriptor is sure to get the error if storing the data fails. A node is in the list
// exactly while it is among the writers of its inode's durability. Callers of add and remove hold mu
// of that durability.
type unsyncedFiles struct {
	mu    sync.Mutex
	nodes list.List // of *node
	count atomic.Int64
}

// unsyncedFile is a node's entry in the list.
type unsyncedFile struct {
	listed    atomic.Bool // true if the node is in the list
	entry     *list.Element
	lastWrite atomic.Uint32 // round of the sweeper (one a second) at the last write
}

func (u *unsyncedFiles) add(n *node) {
	n.unsynced.listed.Store(true)
	u.mu.Lock()
	n.unsynced.entry = u.nodes.PushBack(n)
	u.mu.Unlock()
	u.count.Add(1)
}

func (u *unsyncedFiles) remove(n *node) {
	n.unsynced.listed.Store(false)
	u.mu.Lock()
	u.nodes.Remove(n.unsynced.entry)
	u.mu.Unlock()
	u.count.Add(-1)
}

// closely is the number of nodes at the head of the list from which oldest chooses the one with the
// longest time since its last write, so that a file which is written all the time need not be first.
const closely = 16

// oldest returns the node to sync next, with a reference, or nil.
func (u *unsyncedFiles) oldest() *node {
	u.mu.Lock()
	defer u.mu.Unlock()
	var best *node
	for e, seen := u.nodes.Front(), 0; e != nil && seen < closely; e, seen = e.Next(), seen+1 {
		n := e.Value.(*node)
		if n.refs.Load() > 0 && (best == nil || n.unwritten() > best.unwritten()) {
			best = n
		}
	}
	if best == nil || !best.hold() {
		return nil
	}
	return best
}

// idle returns the nodes that were not written for syncAfter rounds, each with a reference.
func (u *unsyncedFiles) idle() (all []*node) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for e := u.nodes.Front(); e != nil; e = e.Next() {
		if n := e.Value.(*node); n.unwritten() >= syncAfter && n.hold() {
			all = append(all, n)
		}
	}
	return all
}

// unwritten returns the number of the sweeper's rounds since the last write to n.
func (n *node) unwritten() uint32 {
	return roundsSince(n.fs.nodes.round.Load(), n.unsynced.lastWrite.Load())
}

// syncOldest syncs the node that oldest returns and closes its idle descriptors, or returns false.
func (fs *FS) syncOldest() bool {
	n := fs.unsynced.oldest()
	if n == nil {
		return false
	}
	fs.syncAndClose(n)
	return true
}

// syncAndClose syncs n, closes its idle descriptors and releases a reference to n. If the sync
// fails, the write verifier (FS.Verifier) changes.
func (fs *FS) syncAndClose(n *node) {
	_ = fs.syncSince(n.mark())
	n.dropIdle(0, false)
	n.put()
}

// makeRoomForData is called before a write to n. If n has no unsynced data, and mostUnsynced files
// or more have such data, it syncs the oldest of these, at most 16 (the constant closely), until
// fewer have such data. If op.Try is set, it returns ErrWouldBlock instead.
func (fs *FS) makeRoomForData(op *vfs.Op, n *node) error {
	if fs.unsynced.count.Load() < fs.mostUnsynced() || n.unsynced.listed.Load() {
		return nil
	}
	if op.Try {
		return vfs.ErrWouldBlock
	}
	for range closely {
		if fs.unsynced.count.Load() < fs.mostUnsynced() || !fs.syncOldest() {
			break
		}
	}
	return nil
}

// flusher is a goroutine of its own, so that the sweeper does not wait for a slow disk. It syncs files
// whose data has been unsynced for too long, and the oldest files if too many have unsynced data.
func (fs *FS) flusher() {
	for {
		select {
		case <-fs.stop:
			return
		case <-fs.flushNow:
			fs.flush()
		}
	}
}

// wakeFlusher makes the flusher goroutine call flush.
func (fs *FS) wakeFlusher() {
	select {
	case fs.flushNow <- struct{}{}:
	default:
	}
}

func (fs *FS) flush() {
	for fs.unsynced.count.Load() > fs.manyUnsynced() && !fs.closed.Load() && fs.syncOldest() {
	}
	for _, n := range fs.unsynced.idle() {
		if fs.closed.Load() {
			n.put()
			continue
		}
		fs.syncAndClose(n)
	}
}

// Unsynced returns the number of files with written data that is not known to be on stable
// storage. Their clients have to commit it, or send it again after a restart. It does not block.
func (fs *FS) Unsynced() (files int) { return int(fs.unsynced.count.Load()) }
