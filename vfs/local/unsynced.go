package local

import (
	"sync"
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// unsyncedFiles are the nodes whose data is not on stable storage: those whose
// client has still to commit. Each keeps a descriptor, by which alone a failure
// to store the data is sure to be told, so that they cannot be let go until
// they are synced.
//
// The one that has been waiting for longest is first. A node is in it exactly
// while its durability says so.
type unsyncedFiles struct {
	mu          sync.Mutex
	first, last *node
	count       atomic.Int64
}

func (u *unsyncedFiles) add(n *node) {
	u.mu.Lock()
	n.data.before = u.last
	if u.last != nil {
		u.last.data.after = n
	} else {
		u.first = n
	}
	u.last = n
	u.mu.Unlock()
	u.count.Add(1)
}

func (u *unsyncedFiles) remove(n *node) {
	u.mu.Lock()
	d := &n.data
	if d.before != nil {
		d.before.data.after = d.after
	} else {
		u.first = d.after
	}
	if d.after != nil {
		d.after.data.before = d.before
	} else {
		u.last = d.before
	}
	d.before, d.after = nil, nil
	u.mu.Unlock()
	u.count.Add(-1)
}

// closely is among how many of the oldest the one is chosen that was written to
// the longest time ago: a file that is being written all the time need not be
// the first to be synced.
const closely = 16

// oldest returns the file to sync next, with a reference, or nil.
func (u *unsyncedFiles) oldest(round uint32) *node {
	u.mu.Lock()
	defer u.mu.Unlock()
	var best *node
	seen := 0
	for n := u.first; n != nil && seen < closely; n = n.data.after {
		seen++
		if n.refs.Load() > 0 && (best == nil || n.data.idleFor(round) > best.data.idleFor(round)) {
			best = n
		}
	}
	if best == nil || !best.hold() {
		return nil
	}
	return best
}

// idle returns those that were last written to at least patience rounds ago,
// each with a reference.
func (u *unsyncedFiles) idle(round, patience uint32) (all []*node) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for n := u.first; n != nil; n = n.data.after {
		if n.data.idleFor(round) >= patience && n.hold() {
			all = append(all, n)
		}
	}
	return all
}

// hold takes a reference unless the last one is being given back.
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

// syncOldest puts the data that has been waiting for longest on stable storage
// and lets the file go. false: there was none.
func (fs *FS) syncOldest() bool {
	n := fs.unsynced.oldest(fs.nodes.round.Load())
	if n == nil {
		return false
	}
	fs.syncAndClose(n)
	return true
}

// syncAndClose gives n's reference back. A failure is told by the verifier.
func (fs *FS) syncAndClose(n *node) {
	_ = fs.syncSince(n.mark())
	n.dropIdle(0, 0)
	n.put()
}

// makeRoomForData is called before a file is written to. As long as too many
// others wait for a sync, the writer syncs one of them for its own.
func (fs *FS) makeRoomForData(op *vfs.Op, n *node) error {
	if fs.unsynced.count.Load() < fs.mostUnsynced() || n.data.dirty() {
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

// flusher is the goroutine that syncs what clients leave uncommitted, for too
// long or in too many files. It stands apart from the sweeper, which goes on
// while a disk is slow.
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

// wakeFlusher has what is to be synced looked at soon.
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

// Unsynced is how many files have data that was written and is not known to be on
// stable storage: their writers are to commit it, or to send it again to the next
// process. It does not block.
func (fs *FS) Unsynced() (files int) { return int(fs.unsynced.count.Load()) }
