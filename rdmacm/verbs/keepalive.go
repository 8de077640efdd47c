package verbs

import (
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/device"
)

// silenceTick is the time between two checks for silence. After silentTicks checks in a row that
// found no activity, the connection asks whether its peer is still there.
const (
	silenceTick = 30 * time.Second
	silentTicks = 2
)

// A keepAlive finds a peer that has vanished, for example because its machine lost its power, while
// neither side had anything to send. Devices do not notice that by themselves, and the connection
// would keep its seat and its memory for ever. Conn.mu guards it.
type keepAlive struct {
	timer  *time.Timer
	heard  uint64 // number of messages that had arrived at the last check
	done   uint64 // number of requests that the device had completed at the last check
	silent int    // number of checks since one of these numbers changed
}

// listen runs when the timer fires. If the connection was silent for some time, listen posts a probe,
// an empty request. A live peer's device acknowledges the probe without the peer's program. If the
// peer has vanished, the device gives up after a few seconds and puts the queue pair into the error
// state, or the watch ends the connection.
func (c *Conn) listen() {
	active := c.rnic.active(c.port.Port)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending.phase > live || c.over {
		return
	}
	k := &c.alive
	k.timer.Reset(silenceTick)
	heard := c.moved.Load()
	if k.silent++; k.heard != heard || k.done != c.out.head {
		k.heard, k.done, k.silent = heard, c.out.head, 0
	}
	// While a completion is due, the watch looks after the connection. While the port is down, a probe
	// would end a connection that may go on when the port is up again, and would help nobody, because
	// no peer can connect over the port.
	if k.silent < silentTicks || !active || c.out.expects() {
		return
	}
	k.silent = 0
	c.probeLocked()
}

// probeLocked posts an empty request. On siw it is an RDMA Read, if the peer serves Reads, because siw
// completes a Write before the peer has acknowledged it.
func (c *Conn) probeLocked() {
	c.out.probe = device.Write
	if c.rnic.SIW && c.readDepth > 0 {
		c.out.probe = device.Read
	}
	c.watchLocked()
	c.sendLocked()
}

// active reports whether a port was active when its last event was taken.
func (d *rnic) active(port int) bool {
	d.p.mu.Lock()
	defer d.p.mu.Unlock()
	return d.ports[port]
}

// nudgeAfter is the time that a peer gets to receive the reply of the set-up. A peer with siw
// refuses the connection if bytes after the reply have already arrived when it reads the reply.
const nudgeAfter = 2 * time.Second

// nudge makes siw look at its socket. siw may miss bytes that arrive while it accepts a connection:
// they stay in the socket until more bytes arrive, and the peer waits for an answer. So if no message
// has arrived, nudge posts an empty RDMA Read, and the peer's answer to it brings more bytes.
func (c *Conn) nudge() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.moved.Load() == 0 && c.ending.phase == live {
		c.probeLocked()
	}
}
