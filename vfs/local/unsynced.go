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
// while it is among the writers of its inode's durability, whose mutex is held by
// the callers of add and remove.
type unsyncedFiles struct {
	mu          sync.Mutex
	first, last *node
	count       atomic.Int64
}

// unsyncedFile is a node's place among them.
type unsyncedFile struct {
	listed        atomic.Bool
	before, after *node
	lastWrite     atomic.Uint32 // the sweeper's round of it
}

func (u *unsyncedFiles) add(n *node) {
	n.unsynced.listed.Store(true)
	u.mu.Lock()
	n.unsynced.before = u.last
	if u.last != nil {
		u.last.unsynced.after = n
	} else {
		u.first = n
	}
	u.last = n
	u.mu.Unlock()
	u.count.Add(1)
}

func (u *unsyncedFiles) remove(n *node) {
	n.unsynced.listed.Store(false)
	u.mu.Lock()
	p := &n.unsynced
	if p.before != nil {
		p.before.unsynced.after = p.after
	} else {
		u.first = p.after
	}
	if p.after != nil {
		p.after.unsynced.before = p.before
	} else {
		u.last = p.before
	}
	p.before, p.after = nil, nil
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
	for n := u.first; n != nil && seen < closely; n = n.unsynced.after {
		seen++
		if n.refs.Load() > 0 && (best == nil || n.unsynced.idleFor(round) > best.unsynced.idleFor(round)) {
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
	for n := u.first; n != nil; n = n.unsynced.after {
		if n.unsynced.idleFor(round) >= patience && n.hold() {
			all = append(all, n)
		}
	}
	return all
}

// idleFor is how many of the sweeper's rounds ago the last write was.
func (p *unsyncedFile) idleFor(round uint32) uint32 { return roundsSince(round, p.lastWrite.Load()) }

// roundsSince is how many rounds passed from was to now. A round that began
// after the caller had looked at the clock is no time.
func roundsSince(now, was uint32) uint32 { return uint32(max(0, int32(now-was))) }

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
