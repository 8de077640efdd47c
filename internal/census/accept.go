package census

import (
	"errors"
	"syscall"
	"time"
)

// How long a listener waits at least after accept(2) failed: for descriptors or memory to come
// free, or so long that an error that stays does not keep a processor busy.
const (
	shortagePause = 50 * time.Millisecond
	acceptPause   = time.Millisecond
)

// AcceptFailed is told of each error of accept(2) but that of a closed listener, and
// returns how long the listener waits before it accepts again. No other error ends a
// listener: they concern the one connection that came, or they pass (accept(2), "Error
// handling"). If the process is short of descriptors or memory, a stranger loses its seat,
// so that the next connection in the backlog gets what it held.
func (c *Census) AcceptFailed(err error) (pause time.Duration) {
	if c.cfg.AcceptFailed != nil {
		c.cfg.AcceptFailed(err)
	}
	for _, shortage := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM} {
		if errors.Is(err, shortage) {
			c.evictStranger()
			return shortagePause
		}
	}
	return acceptPause
}
