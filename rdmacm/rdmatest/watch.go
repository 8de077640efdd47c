package rdmatest

import (
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
)

// watchTicks is how often the watch looks in the time that a chain may take.
const watchTicks = 4

// A watch ends a connection whose oldest chain does not come back in time. Work is carried
// out at once here, so that there are no bytes to be watched. link.mu guards it.
type watch struct {
	timer   *time.Timer
	running bool
	ticks   int // since a chain came back
}

// watchOn makes the watch look, if it does not yet. link.mu is held.
func (c *Conn) watchOn() {
	w := &c.watch
	if w.running || c.dead {
		return
	}
	w.running, w.ticks = true, 0
	if w.timer == nil {
		w.timer = time.AfterFunc(c.provider.cfg.Stall/watchTicks, c.look)
	} else {
		w.timer.Reset(c.provider.cfg.Stall / watchTicks)
	}
}

// look is the timer's function.
func (c *Conn) look() {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	w := &c.watch
	switch {
	case c.dead:
	case len(c.posted) == 0:
		w.running = false
	case w.ticks == watchTicks:
		c.kill(rdmacm.ErrStalled, ErrLost)
	default:
		w.ticks++
		w.timer.Reset(c.provider.cfg.Stall / watchTicks)
	}
}

// stop ends the watch, with the connection.
func (w *watch) stop() {
	if w.timer != nil {
		w.timer.Stop()
	}
}
