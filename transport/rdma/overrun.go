package rdma

import (
	"errors"
	"fmt"
)

// A peer may have as many calls outstanding as it was granted credits (RFC 8166
// §3.3.1). The receive for its next call is promised with each answer, so that one
// that never reads answers could go on calling: what is under way of its calls
// would have no bound but a deadline. So calls are counted, and a peer that makes
// more than it was granted loses its connection.

var errOverrun = errors.New("rdma: peer calls beyond its credits")

// overrunSlack is how many calls there are, beyond what could be outstanding, before
// they are counted exactly: it keeps the exact count off the way of a call.
const overrunSlack = 16

// enter begins a call for the message r, of the XID xid; false means that there is none: the
// connection drains, or is ended for calling too much.
func (s *responder) enter(xid uint32, r *recv) bool {
	n := s.k.enter()
	if n == 0 {
		s.k.drop(faultDraining, xid, r)
		return false
	}
	if n <= s.mostCalls()+overrunSlack || !s.overrun(n) {
		return true
	}
	r.Release()
	s.k.leave()
	return false
}

// mostCalls is how many calls of a peer that keeps to its credits there may be, as
// this side sees it: those outstanding, and as many whose answers the peer has got
// while this side has not taken note of it.
func (s *responder) mostCalls() int64 { return 2*int64(s.granted.Load()) + spareReceives }

// overrun ends the connection where too many of its n calls are outstanding for
// sure. A call whose answer was handed to the network is not, even if its record is
// still in use.
func (s *responder) overrun(n int64) bool {
	outstanding := n - s.answers()
	outstanding += min(int64(s.k.device.Unsent()), n-outstanding)
	if outstanding <= s.mostCalls() {
		return false
	}
	s.k.end(faultOverrun, fmt.Errorf("%w: %d calls are under way, %d were granted", errOverrun, outstanding, s.granted.Load()))
	return true
}

// answers is how many answers were posted and did not come back: chains that are no
// RDMA Read. Where more are posted or come back meanwhile, it is rather too high.
func (s *responder) answers() int64 {
	back := s.k.back.Load()
	reads := s.reads.posted()
	return max(int64(s.k.sent.Load()-back)-reads, 0)
}
