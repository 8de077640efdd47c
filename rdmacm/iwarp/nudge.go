package iwarp

import "time"

// Linux's siw, as a responder, may miss what arrives while it finishes the
// set-up: it stays in the socket until more comes. An initiator that has heard
// nothing yet therefore sends another empty RDMA Write, which wakes such a peer
// and means nothing to any other.
const (
	firstNudge = 50 * time.Millisecond
	nudges     = 4 // each waits four times as long as the one before
)

// nudgeLater begins to nudge. It is for initiators.
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
