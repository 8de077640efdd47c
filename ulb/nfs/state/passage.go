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
type Pass struct {
	way *way
	era uint32
}

// Done ends the access. The caller calls it exactly once, when it no longer changes the file.
func (p Pass) Done() {
	if w := p.way; w != nil && w.under[p.era&1].Add(-1) == 0 && w.awaited.Load() > 0 {
		w.wake(p.era)
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

// A way counts the changes under way of the files whose handles have one hash: by two counters, of which those that
// begin use one, era. If a hold waits for changes that began earlier, it turns new ones to the other counter, so that
// the first one comes to 0 however many begin meanwhile.
type way struct {
	under [2]atomic.Int32
	era   atomic.Uint32
	// awaited is the number of callers of quiet that wait for the way.
	awaited atomic.Int32
	mu      sync.Mutex
	empty   [2]uint64     // how often each counter was seen to be 0, by a holder of mu
	changed chan struct{} // wake closes it; it may stay when the last caller of quiet has returned
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
	era := x.era.Load() & 1
	x.under[era].Add(1)
	return Pass{x, era}
}

// wake makes the callers of quiet look again. Done may have seen its 0 before their holds, and another change may have begun
// since. So wake counts only a 0 that it sees itself.
func (w *way) wake(era uint32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.under[era].Load() == 0 {
		w.empty[era]++
	}
	if w.changed != nil {
		close(w.changed)
		w.changed = nil
	}
}

// look reports whether each counter has been 0 since the counts in since: whatever began before has then ended. If one has
// not, and new changes use it although the other one is 0, look turns them to the other one. next is closed when there is
// something new to see.
func (w *way) look(since *[2]uint64) (quiet bool, next <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	quiet = true
	for era := range w.under {
		if w.empty[era] > since[era] {
			continue
		}
		if w.under[era].Load() == 0 {
			w.empty[era]++ // remember it, because changes may be turned here
			continue
		}
		quiet = false
		if other := 1 - uint32(era); w.era.Load() == uint32(era) && w.under[other].Load() == 0 {
			w.empty[other]++
			w.era.Store(other)
		}
	}
	if w.changed == nil {
		w.changed = make(chan struct{})
	}
	return quiet, w.changed
}

// quiet reports whether the changes have ended that were under way when it was called. It waits for their end for at most
// this time. The caller has announced its hold, so that no more changes of the file begin. Those of other files with the same
// hash may begin, and are not waited for.
func (w *way) quiet(long time.Duration) bool {
	if w.under[0].Load() == 0 && w.under[1].Load() == 0 {
		return true
	}
	if long == 0 {
		return false
	}
	w.awaited.Add(1)
	defer w.awaited.Add(-1)
	w.mu.Lock()
	since := w.empty
	w.mu.Unlock()
	late := time.NewTimer(long)
	defer late.Stop()
	for {
		quiet, next := w.look(&since)
		if quiet {
			return true
		}
		select {
		case <-next:
		case <-late.C:
			return false
		}
	}
}
