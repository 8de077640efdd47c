package verbs

import "time"

// nudgeAfter is the time that a peer gets to receive the reply of the set-up: siw refuses a
// connection if more than that reply is there when it looks.
const nudgeAfter = 2 * time.Second

// nudge makes siw look at its socket. siw may miss bytes that arrive while it accepts a
// connection: they stay in the socket until more bytes come, and the peer waits for an answer. So
// if no message has arrived, the device gets an empty RDMA Read. The peer's answer to it is such bytes.
func (c *Conn) nudge() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.moved.Load() == 0 && c.ending.phase == live {
		c.out.nudge = true
		c.sendLocked()
	}
}
