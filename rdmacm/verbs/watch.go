package verbs

import (
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
)

// watchTicks is the number of times that a watch checks the connection during Config.StallTimeout.
const watchTicks = 4

// A watch ends a connection whose peer lets none of the posted work complete for Config.StallTimeout.
// Its timer runs only while the connection expects a completion. Conn.mu guards it.
type watch struct {
	timer   *time.Timer
	running bool
	seen    uint64 // number of requests that the device had completed at the last check
	ticks   int    // number of checks since that number changed
}

// watchLocked starts the timer of the watch, unless it runs.
func (c *Conn) watchLocked() {
	w := &c.watch
	if w.running {
		return
	}
	w.running, w.ticks = true, 0
	if tick := c.p.cfg.StallTimeout / watchTicks; w.timer == nil {
		w.timer = time.AfterFunc(tick, c.look)
	} else {
		w.timer.Reset(tick)
	}
}

// look runs when the timer fires, and checks whether the device has completed requests since the
// last check. If the end of the connection has begun, look only lets the timer stop, because an
// end has time limits of its own. Completions of short Sends cause no event, so look wakes the
// connection's goroutine, which polls for them.
func (c *Conn) look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := &c.watch
	if !c.out.expects() || c.ending.phase > live || c.over {
		w.running = false
		return
	}
	if w.ticks++; w.seen != c.out.head {
		w.seen, w.ticks = c.out.head, 0
	}
	if w.ticks > watchTicks {
		c.failLocked(rdmacm.ErrStalled)
		return
	}
	w.timer.Reset(c.p.cfg.StallTimeout / watchTicks)
	c.dev.Wake()
}

// expects reports whether a completion is due: the device has a request that asked for one, or
// work waits until the device has room. The device reports nothing about the short Sends behind
// the last such request.
func (o *sends) expects() bool { return o.head < o.signaled || o.issued < len(o.queue) }
