package local

import (
	"container/list"
	"sync"
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// unsyncedFiles is the list of nodes with data that is not on stable storage, because their
// clients have not committed yet. Each node keeps its writable descriptor open, because only that
// descriptor is sure to get the error if storing the data fails. So a node cannot be removed from
// the cache until its data is synced.
//
// The node that has waited longest is first. A node is in the list exactly while it is among the
// writers of its inode's durability. Callers of add and remove hold mu of that durability.
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

// closely is the number of nodes at the head of the list that oldest compares. Of these, the node
// with the longest time since its last write is synced next, so that a file which is written all
// the time need not be the first.
const closely = 16

// oldest returns the node to sync next, with a reference, or nil.
func (u *unsyncedFiles) oldest(round uint32) *node {
	u.mu.Lock()
	defer u.mu.Unlock()
	var best *node
	for e, seen := u.nodes.Front(), 0; e != nil && seen < closely; e, seen = e.Next(), seen+1 {
		n := e.Value.(*node)
		if n.refs.Load() > 0 && (best == nil || n.unsynced.idleFor(round) > best.unsynced.idleFor(round)) {
			best = n
		}
	}
	if best == nil || !best.hold() {
		return nil
	}
	return best
}

// idle returns the nodes that were not written lately, each with a reference. patience says for how
// long: it is a number of rounds of the sweeper, which are one second apart. The argument round is
// the number of the present round.
func (u *unsyncedFiles) idle(round, patience uint32) (all []*node) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for e := u.nodes.Front(); e != nil; e = e.Next() {
		if n := e.Value.(*node); n.unsynced.idleFor(round) >= patience && n.hold() {
			all = append(all, n)
		}
	}
	return all
}

// idleFor returns the number of the sweeper's rounds since the last write.
func (p *unsyncedFile) idleFor(round uint32) uint32 { return roundsSince(round, p.lastWrite.Load()) }

// roundsSince returns by how many rounds the first argument is later than the second. If it is
// earlier, roundsSince returns 0; that happens if a round begins after the caller has read the
// number for the first argument.
func roundsSince(now, was uint32) uint32 { return uint32(max(0, int32(now-was))) }

// hold takes a reference. It returns false if the last reference was released already.
func (n *node) hold() bool {
	for {
		refs := n.refs.Load()
		if refs == 0 {
			return false
		}
		if n.refs.CompareAndSwap(refs, refs+1) {
			return true
		}
	}
}

// syncOldest syncs the node that oldest returns and closes its idle descriptors. It returns false
// if oldest returned none.
func (fs *FS) syncOldest() bool {
	n := fs.unsynced.oldest(fs.nodes.round.Load())
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
	n.dropIdle(0, 0)
	n.put()
}

// makeRoomForData is called before a write to n. If n has no unsynced data, and mostUnsynced files
// or more have such data, it syncs the oldest of these files, one after the other, until fewer have
// such data. It syncs at most 16 (the constant closely). If op.Try is set, it returns ErrWouldBlock
// instead of syncing.
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

// flusher is the goroutine that syncs files whose data has been unsynced for too long, and the
// oldest files if too many have unsynced data. It is separate from the sweeper, so that the
// sweeper keeps its pace while a disk is slow.
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
	for _, n := range fs.unsynced.idle(fs.nodes.round.Load(), syncAfter) {
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
