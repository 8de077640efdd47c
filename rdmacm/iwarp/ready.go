package iwarp

import (
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

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

// nudge sends an empty RDMA Write, as another ready-to-receive message, unless a goroutine is sending
// already. It returns false if the connection is ending, so that no further nudge is needed.
func (t *transmitter) nudge() bool {
	t.mu.Lock()
	refusing, own := t.refusing, false
	if !refusing && t.rtr == 0 && !t.owned {
		t.rtr = wire.RTRWrite
		own = t.acquire()
	}
	t.mu.Unlock()
	if own {
		t.transmit()
	}
	return !refusing
}

// startRTR begins the ready-to-receive message for the responder (RFC 6581 §9.2).
func (t *transmitter) startRTR(form wire.RTR) {
	m := &t.out
	*m = outgoing{active: true}
	switch form {
	case wire.RTRWrite:
		m.op, m.stag = wire.Write, rtrSTag
	case wire.RTRRead:
		t.startRead(nil, 0, rdmacm.Remote{STag: rtrSTag}, nil)
	case wire.RTRSend:
		m.op, m.queue, m.msn = wire.Send, wire.QueueSend, t.nextMSN(wire.QueueSend)
	}
}

// rtrSTag is arbitrary: no peer checks the STag of a zero-length message.
const rtrSTag = 1
