package state

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A Pass is the permission for one access: see Ask. The zero value is the pass of an access that the Manager does
// not count, because it changes nothing.
type Pass struct{ way *way }

// Done ends the access. The caller calls it exactly once, when it no longer changes the file.
func (p Pass) Done() {
	if w := p.way; w != nil && w.under.Add(-1) == 0 && w.awaited.Load() > 0 {
		w.wake()
	}
}

// Passes are those of the changes that one operation makes, at most four. The zero value has none.
type Passes struct {
	all [4]Pass
	n   int
}

// Add keeps a pass until Done.
func (p *Passes) Add(more Pass) {
	if more != (Pass{}) {
		p.all[p.n] = more
		p.n++
	}
}

// Done ends the accesses of all passes, and forgets them.
func (p *Passes) Done() {
	for _, x := range p.all[:p.n] {
		x.Done()
	}
	p.n = 0
}

// A way counts the changes under way of the files whose handles have one hash.
type way struct {
	under atomic.Int32
	// awaited is the number of callers of quiet that wait for the way.
	awaited atomic.Int32
	mu      sync.Mutex
	changed chan struct{} // closed when next no change is under way; nil if no caller waits
}

// ways holds the ways by hash. There are so many that a change of one file rarely keeps a hold on another one
// waiting.
type ways struct {
	seed maphash.Seed
	all  [1 << 12]way
}

// of returns the way of a file, or of a directory whose names change.
func (w *ways) of(h *vfs.Handle) *way {
	return &w.all[maphash.Bytes(w.seed, h.Bytes())%uint64(len(w.all))]
}

// begin counts a change. The caller then looks for holds: so either a hold sees the change, or the change sees
// the hold (quiet).
func (w *ways) begin(h *vfs.Handle) Pass {
	x := w.of(h)
	x.under.Add(1)
	return Pass{x}
}

func (w *way) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.changed != nil {
		close(w.changed)
		w.changed = nil
	}
}

func (w *way) next() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.changed == nil {
		w.changed = make(chan struct{})
	}
	return w.changed
}

// quiet reports whether no changes are under way. It waits for their end for at most this time. The caller has
// announced its hold, so that no more changes of the file begin. But those of other files with the same hash count
// too, and may begin.
func (w *way) quiet(long time.Duration) bool {
	if w.under.Load() == 0 {
		return true
	}
	if long == 0 {
		return false
	}
	w.awaited.Add(1)
	defer w.awaited.Add(-1)
	late := time.NewTimer(long)
	defer late.Stop()
	for {
		next := w.next()
		if w.under.Load() == 0 {
			return true
		}
		select {
		case <-next:
		case <-late.C:
			return false
		}
	}
}
