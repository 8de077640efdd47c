package local

import (
	"container/list"
	"math/rand/v2"
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
	// (syncCaller.confirm). Only the goroutine whose sync call is running uses it.
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
	by     *syncer
	d      *durability
	n      *node // the node of d; nil if d is syncer.whole, which is for objects that cannot be synced alone
	failed *SyncError
}

// A syncer makes the changes through one FS durable. It knows what is not on stable storage, when to sync
// it, and what a failure means. Its disk makes the sync calls.
type syncer struct {
	disk   disk
	device *device
	always bool // Config.Sync
	// volatile is true if the file system loses everything with the machine's memory, so that a
	// sync makes nothing durable.
	volatile bool
	whole    durability // for objects that cannot be synced alone, such as symlinks
	unsynced unsyncedFiles
	verifier atomic.Uint64
	flushNow chan struct{}
	stop     chan struct{} // closed when the FS is closed
}

// A disk is what a syncer needs from the file system and from the FS.
type disk interface {
	// syncNode syncs all changes so far of n, whose durability is d, or of the whole file system if n is
	// nil. It returns the call that it made.
	syncNode(n *node, d *durability) (SyncCall, error)
	// syncWriter syncs n, whose durability is d, through its writable descriptor, if it has one.
	syncWriter(n *node, d *durability) error
	// closeIdle closes the descriptors of n for data and listings that nothing needs.
	closeIdle(n *node)
	// If more than manyUnsynced files have data that is not on stable storage, the flusher syncs some. If
	// mostUnsynced have, a writer does.
	manyUnsynced() int64
	mostUnsynced() int64
}

func (s *syncer) init(d disk, sync bool, stop chan struct{}) {
	s.disk, s.always, s.stop, s.flushNow = d, sync, stop, make(chan struct{}, 1)
}

// start is called when it is known on which device the files are.
func (s *syncer) start(d *device, volatile bool) {
	s.device, s.volatile = d, volatile
	s.whole.confirmed = d.failures.Load()
	s.verifier.Store(rand.Uint64())
}

// newVerifier changes the verifier. The new verifier tells clients that data which they wrote and
// did not commit may be lost.
func (s *syncer) newVerifier() { s.verifier.Add(1) }

// mark returns a mark for a change of n. It is called before the change.
func (n *node) mark() mark {
	m := mark{by: n.cache.syncer, d: &n.inode.durability, n: n}
	if n.typ != vfs.Regular && n.typ != vfs.Directory {
		m.d, m.n = &m.by.whole, nil
	}
	m.failed = m.d.failed.Load()
	return m
}

// durable makes one change durable, and waits for that. If Config.Sync is false, op.Async is set or
// the file system is volatile, it does nothing. The marks, which the caller took before the change, say what
// to sync: the directories of a removal or a rename; the directory of a creation, and also the new
// file, unless the file system's log holds both in one transaction. The caller has references to the
// marks' nodes.
func (s *syncer) durable(op *vfs.Op, first mark, others ...mark) error {
	if !s.always || op.Async || s.volatile {
		return nil
	}
	errs := make(chan error, 2)
	for _, m := range others {
		go func() { errs <- m.syncChange() }()
	}
	err := first.syncChange()
	for range others {
		if other := <-errs; err == nil {
			err = other
		}
	}
	return err
}

// syncChange makes a change of attributes or names durable. It first counts the change as new,
// because a sync call that already runs may miss it.
func (m mark) syncChange() error {
	m.d.mu.Lock()
	m.d.changes++
	m.d.mu.Unlock()
	return m.sync()
}

// sync makes all changes so far of m's inode durable, or returns a failure since the mark.
func (m mark) sync() error {
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
		m.by.syncLocked(m)
	}
}

// syncLocked syncs all changes so far of m's inode: first through m.n, then through the other nodes
// in d.writers. The caller holds d.mu, which is unlocked during the sync calls.
func (s *syncer) syncLocked(m mark) {
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
	call, err := s.disk.syncNode(m.n, d)
	for _, n := range others {
		if otherErr := n.cache.syncer.disk.syncWriter(n, d); otherErr != nil {
			call, err = Fsync, otherErr
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
		s.device.lost()
		for _, w := range d.writers { // of FSs that count as another device, if mountinfo misses a mount
			if other := w.cache.syncer.device; other != s.device {
				other.lost()
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
	s := n.cache.syncer
	if s.volatile {
		return
	}
	d := &n.inode.durability
	d.mu.Lock()
	d.changes++
	n.unsynced.lastWrite.Store(n.cache.round.Load())
	if !n.unsynced.listed.Load() {
		d.writers = append(d.writers, n)
		s.unsynced.add(n)
	}
	d.mu.Unlock()
	if s.unsynced.count.Load() > s.disk.manyUnsynced() {
		s.wakeFlusher()
	}
}

// unlistLocked empties d.writers. It is called when nothing is left to sync.
func (d *durability) unlistLocked() {
	for _, n := range d.writers {
		n.cache.syncer.unsynced.remove(n)
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
		n.cache.syncer.unsynced.remove(n)
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
	return roundsSince(n.cache.round.Load(), n.unsynced.lastWrite.Load())
}

// syncOldest syncs the node that oldest returns and closes its idle descriptors, or returns false.
func (s *syncer) syncOldest() bool {
	n := s.unsynced.oldest()
	if n == nil {
		return false
	}
	s.syncAndClose(n)
	return true
}

// syncAndClose syncs n, closes its idle descriptors and releases a reference to n. If the sync
// fails, the write verifier (FS.Verifier) changes.
func (s *syncer) syncAndClose(n *node) {
	_ = n.mark().sync()
	s.disk.closeIdle(n)
	n.put()
}

// makeRoomForData is called before a write to n. If n has no unsynced data, and mostUnsynced files
// or more have such data, it syncs the oldest of these, at most 16 (the constant closely), until
// fewer have such data. If op.Try is set, it returns ErrWouldBlock instead.
func (s *syncer) makeRoomForData(op *vfs.Op, n *node) error {
	if s.unsynced.count.Load() < s.disk.mostUnsynced() || n.unsynced.listed.Load() {
		return nil
	}
	if op.Try {
		return vfs.ErrWouldBlock
	}
	for range closely {
		if s.unsynced.count.Load() < s.disk.mostUnsynced() || !s.syncOldest() {
			break
		}
	}
	return nil
}

// flusher is a goroutine of its own, so that the sweeper does not wait for a slow disk. It syncs files
// whose data has been unsynced for too long, and the oldest files if too many have unsynced data.
func (s *syncer) flusher() {
	for {
		select {
		case <-s.stop:
			return
		case <-s.flushNow:
			s.flush()
		}
	}
}

// wakeFlusher makes the flusher goroutine call flush.
func (s *syncer) wakeFlusher() {
	select {
	case s.flushNow <- struct{}{}:
	default:
	}
}

func (s *syncer) flush() {
	for s.unsynced.count.Load() > s.disk.manyUnsynced() && !s.stopped() && s.syncOldest() {
	}
	for _, n := range s.unsynced.idle() {
		if s.stopped() {
			n.put()
			continue
		}
		s.syncAndClose(n)
	}
}

// stopped reports whether the FS is closed.
func (s *syncer) stopped() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}
