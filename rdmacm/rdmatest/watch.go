package rdmatest

import (
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
)

// watchTicks is the number of times that the watch checks the connection during Config.Stall.
const watchTicks = 4

// A watch ends a connection if chains are posted and Done of none is called during
// Config.Stall. It watches chains and not bytes, because the device carries out each work
// request in one step. link.mu guards it.
type watch struct {
	timer   *time.Timer
	running bool
	ticks   int // number of checks since Done of a chain was called
}

// watchOn starts the timer of the watch, unless the timer runs. The caller holds link.mu.
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

// look runs when the timer fires. It ends the connection if chains are posted and Done of none
// was called during Config.Stall.
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

// stop stops the timer, because the connection has ended.
func (w *watch) stop() {
	if w.timer != nil {
		w.timer.Stop()
	}
}
