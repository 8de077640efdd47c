package local

import (
	"runtime"
	"time"

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
