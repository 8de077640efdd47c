package rdma

import (
	"errors"
	"fmt"
)

// In version 1 credits count calls: a requester may have as many calls outstanding as the
// responder granted (RFC 8166 §3.3.1). Each direction of a connection has credits of its
// own. A requester keeps its calls within the peer's grant. A responder ends the connection
// of a peer that makes many more calls than messages.granted.

// credits is the credit state of a requester. caller.mu guards it.
type credits struct {
	// requested is the number of credits that every call asks for.
	requested uint32
	// granted is the grant in the last reply, or 1 before the first reply (RFC 8166 §3.3.3).
	granted uint32
	// inFlight is the number of unanswered calls, cancelled ones included.
	inFlight uint32
}

func newCredits(requested int) credits {
	return credits{requested: uint32(requested), granted: 1}
}

// may reports whether another call may be sent. A grant of 0 counts as 1, because some peers that
// predate RFC 8166 grant 0. The requester then sends one call at a time, and the answer may bring a
// larger grant.
func (c *credits) may() bool {
	return c.inFlight < max(1, min(c.requested, c.granted))
}

// answered counts an answer and applies the grant in it. An RDMA_ERROR with a grant of 0 leaves the
// present grant unchanged.
func (c *credits) answered(granted uint32, isError bool) {
	c.inFlight--
	if granted > 0 || !isError {
		c.granted = granted
	}
}

// The responder counts the peer's calls. If a peer makes more calls than its credits allow, the
// responder ends the connection. The reason is that the responder makes itself ready for another
// call with each answer. So a peer that never reads answers could otherwise continue to call until
// a deadline ends the connection.

var errOverrun = errors.New("rdma: peer calls beyond its credits")

// Up to overrunSlack calls beyond mostCalls may be under way before enterRun calls overrun, which
// counts exactly. So an ordinary call does not pay for the exact count.
const overrunSlack = 16

// mostCalls returns the largest number of calls under way that this side can count for a peer that
// keeps to its credits. That is twice the grant, because the peer may have received all answers,
// and sent as many new calls, before this side learns of it. A few more calls (spareReceives) are
// tolerated.
func (s *responder) mostCalls() int64 { return 2*int64(s.k.granted.Load()) + spareReceives }

// overrun counts the peer's outstanding calls. Where the number is uncertain, it takes the lowest
// possible one. If there are more than mostCalls, overrun ends the connection and returns true. n
// is the number of calls under way. A call is not outstanding any more once its answer was handed
// to the network.
func (s *responder) overrun(n int64) bool {
	outstanding := n - s.answers()
	outstanding += min(int64(s.k.device.Unsent()), n-outstanding)
	if outstanding <= s.mostCalls() {
		return false
	}
	s.k.endConnection(faultOverrun, fmt.Errorf("%w: %d calls are under way, %d were granted", errOverrun, outstanding, s.k.granted.Load()))
	return true
}

// answers returns the number of posted answers that the device has not completed: all its
// incomplete chains except RDMA Reads. If chains are posted or completed meanwhile, the
// number may be too high.
func (s *responder) answers() int64 {
	back := s.k.back.Load()
	reads := s.reads.posted()
	return max(int64(s.k.sent.Load()-back)-reads, 0)
}
