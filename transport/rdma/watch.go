package rdma

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
)

// watchTicks is into how many steps a deadline is cut: chains are late after
// the deadline and at most a step more.
const watchTicks = 4

// A watch sees that every posted chain comes back in time, or ends the
// connection: that is how a peer that never answers an RDMA Read, or stops
// reading, loses its connection, so that no call waits for its memory.
//
// Chains come back in the order of their posting. So it suffices to count: all
// that was posted a deadline ago must have come back by now. That costs two
// additions a chain, and a timer that runs only while chains are outstanding.
type watch struct {
	limit      time.Duration
	sent, back atomic.Uint64
	running    atomic.Bool
	mu         sync.Mutex
	timer      *time.Timer
	history    [watchTicks]uint64 // sent, at the last ticks
	ticks      int
	ended      bool
}

// posted counts a chain that is about to be handed to k's device.
func (w *watch) posted(k *connection) {
	w.sent.Add(1)
	if w.running.Load() || !w.running.CompareAndSwap(false, true) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ticks = 0
	switch {
	case w.ended:
	case w.timer == nil:
		w.timer = time.AfterFunc(w.limit/watchTicks, func() { w.tick(k) })
	default:
		w.timer.Reset(w.limit / watchTicks)
	}
}

// returned counts a chain that came back.
func (w *watch) returned() { w.back.Add(1) }

func (w *watch) tick(k *connection) {
	w.mu.Lock()
	if w.ended {
		w.mu.Unlock()
		return
	}
	sent, back := w.sent.Load(), w.back.Load()
	if sent == back {
		w.running.Store(false)
		// A chain posted in between found the watch running.
		if sent = w.sent.Load(); sent == w.back.Load() || !w.running.CompareAndSwap(false, true) {
			w.mu.Unlock()
			return
		}
		w.ticks = 0
	}
	slot := &w.history[w.ticks%watchTicks]
	late := w.ticks >= watchTicks && back < *slot
	*slot = sent
	w.ticks++
	if !late {
		w.timer.Reset(w.limit / watchTicks)
	} else {
		w.ended = true
	}
	w.mu.Unlock()
	if late {
		k.end(faultStalled, fmt.Errorf("rdma: %d work chains are not done after %v: %w",
			sent-back, w.limit, rdmacm.ErrTimeout))
	}
}

// stop ends the watch.
func (w *watch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	if w.timer != nil {
		w.timer.Stop()
	}
}
