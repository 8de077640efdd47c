package iwarp

import "time"

// As a responder, Linux's siw may miss bytes that arrive while it finishes the set-up: they stay
// in the socket until more bytes come. So an initiator that has received nothing yet sends
// another empty RDMA Write (a nudge). It wakes such a peer, and has no effect on any other.
const (
	firstNudge = 50 * time.Millisecond
	nudges     = 4 // number of nudges; each waits four times as long as the one before
)

// nudgeLater starts the timer that sends the nudges.
func (l *lifecycle) nudgeLater() {
	wait, left := firstNudge, nudges
	l.mu.Lock()
	defer l.mu.Unlock()
	l.nudge = time.AfterFunc(wait, func() {
		if left == 0 || l.rx.arrived.Load() > 0 || !l.tx.nudge() {
			return
		}
		left--
		wait *= 4
		l.mu.Lock()
		defer l.mu.Unlock()
		if !l.watch.over {
			l.nudge.Reset(wait)
		}
	})
}
