package verbs

import "time"

// nudgeAfter is the time that a peer gets to receive the reply of the set-up. A peer with siw
// refuses the connection if bytes after the reply have already arrived when it reads the reply.
const nudgeAfter = 2 * time.Second

// nudge makes siw look at its socket. siw may miss bytes that arrive while it accepts a
// connection: they stay in the socket until more bytes arrive, and the peer waits for an answer.
// So if no message has arrived, nudge posts an empty RDMA Read, and the peer's answer to it
// brings more bytes.
func (c *Conn) nudge() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.moved.Load() == 0 && c.ending.phase == live {
		c.probeLocked()
	}
}
