package census

import (
	"errors"
	"syscall"
	"time"
)

// shortagePause is how long a listener waits, at least, after accept(2) failed for lack of
// descriptors or memory, so that some can become free. acceptPause is how long it waits, at least,
// after any other error, so that a lasting error does not keep a processor busy.
const (
	shortagePause = 50 * time.Millisecond
	acceptPause   = time.Millisecond
)

// AcceptFailed is called for each error of accept(2), except that of a closed listener. It returns
// how long the listener waits before it accepts again. None of these errors ends a listener,
// because they concern one connection or are temporary (accept(2), "Error handling"). If the
// process is short of descriptors or memory, AcceptFailed also calls EvictStranger, to free some
// for the next connection in the backlog.
func (c *Census) AcceptFailed(err error) (pause time.Duration) {
	if c.cfg.AcceptFailed != nil {
		c.cfg.AcceptFailed(err)
	}
	for _, shortage := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM} {
		if errors.Is(err, shortage) {
			c.EvictStranger()
			return shortagePause
		}
	}
	return acceptPause
}
