package local

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// SetClock replaces the clock that says how young a ctime is.
func (fs *FS) SetClock(now func() time.Time) { fs.now = now }

// Sweep is n seconds of the sweeper.
func (fs *FS) Sweep(n int) {
	for range n {
		fs.sweepOnce()
	}
}

// EvictAll lets every idle node go.
func (fs *FS) EvictAll() { fs.nodes.shrink(1 << 20) }

// WaitQueued returns when n nodes wait for the next round of the group commit.
func (fs *FS) WaitQueued(n int) {
	for {
		g := &fs.names
		g.mu.Lock()
		waiting := g.round != nil && g.round.waiting >= n
		g.mu.Unlock()
		if waiting {
			return
		}
		runtime.Gosched()
	}
}

// FlushIndex writes what the index has learnt.
func (fs *FS) FlushIndex() {
	if x, ok := fs.resolver.(*index); ok {
		x.flush()
	}
}

// ForgetSearch lets the index search again at once.
func (fs *FS) ForgetSearch() {
	x := fs.resolver.(*index)
	x.search.Lock()
	x.renewed = time.Time{}
	x.search.Unlock()
}

// Cached says that h's file is held open by path.
func (fs *FS) Cached(h vfs.Handle) bool {
	n := fs.nodes.cached(&h)
	if n == nil {
		return false
	}
	n.put()
	return true
}

// Bounded says that nothing but the tree is on the file system.
func (fs *FS) Bounded() bool { return fs.bounded }

// WaitForSync returns when n callers wait for a call that syncs h's data.
func (fs *FS) WaitForSync(h vfs.Handle, n int) {
	node := fs.nodes.cached(&h)
	defer node.put()
	for {
		node.data.mu.Lock()
		waiting := node.data.waiting
		node.data.mu.Unlock()
		if waiting >= n {
			return
		}
		runtime.Gosched()
	}
}

// Told is the Change that is told of h with attributes st, after a change
// through the file system or not.
func (fs *FS) Told(h vfs.Handle, st *unix.Stat_t, changed bool) uint64 {
	n, err := fs.node(&daemonOp, h)
	if err != nil {
		return 0
	}
	defer n.put()
	var a vfs.Attr
	if changed {
		n.fillChanged(&a, st)
	} else {
		n.fill(&a, st)
	}
	return a.Change
}

// SetUnnamed says whether the file system has unnamed files.
func (fs *FS) SetUnnamed(has bool) { fs.noUnnamed.Store(!has) }
