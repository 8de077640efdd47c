package iwarp

import (
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// Linux's siw, as a responder, may miss what arrives while it finishes the
// set-up: it stays in the socket until more comes. An initiator that has heard
// nothing yet therefore sends another empty RDMA Write, which wakes such a peer
// and means nothing to any other.
const (
	firstNudge = 50 * time.Millisecond
	nudges     = 4 // each waits four times as long as the one before
)

// nudgeLater begins to nudge. It is for initiators.
func (c *Conn) nudgeLater() {
	wait, left := firstNudge, nudges
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nudge = time.AfterFunc(wait, func() {
		c.mu.Lock()
		own := false
		if c.rx.arrived.Load() == 0 && !c.refusing && left > 0 {
			left--
			wait *= 4
			if c.rtr == 0 && !c.owned {
				c.rtr = wire.RTRWrite
				own = c.acquire()
			}
			c.nudge.Reset(wait)
		}
		c.mu.Unlock()
		if own {
			c.transmit()
		}
	})
}
