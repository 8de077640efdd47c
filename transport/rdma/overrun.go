package rdma

import (
	"errors"
	"fmt"
)

// A peer may have as many calls outstanding as it was granted credits (RFC 8166 §3.3.1).
// The responder promises the receive for the next call with each answer. So a peer that
// never reads answers could continue to call, and only a deadline would bound its calls
// under way. Therefore the responder counts the calls, and ends the connection of a peer
// that makes more than it was granted.

var errOverrun = errors.New("rdma: peer calls beyond its credits")

// overrunSlack is the number of calls, beyond those that could be outstanding, that are
// allowed without an exact count. It spares an ordinary call the exact count.
const overrunSlack = 16

// enter begins a call for the message m. It returns false if the
// connection drains, or was ended because of too many calls.
func (s *responder) enter(m *inbound) bool {
	n := s.k.enter()
	if n == 0 {
		s.k.drop(faultDraining, m)
		return false
	}
	if n <= s.mostCalls()+overrunSlack || !s.overrun(n) {
		return true
	}
	m.recv.Release()
	s.k.leave()
	return false
}

// mostCalls returns the most calls that this side can count for a peer that keeps to its
// credits: those outstanding, and as many whose answers the peer has received before this
// side noticed.
func (s *responder) mostCalls() int64 { return 2*int64(s.k.granted.Load()) + spareReceives }

// overrun ends the connection if certainly too many of its n calls are outstanding. A call
// is not outstanding once its answer was handed to the network, even if its record is still
// in use.
func (s *responder) overrun(n int64) bool {
	outstanding := n - s.answers()
	outstanding += min(int64(s.k.device.Unsent()), n-outstanding)
	if outstanding <= s.mostCalls() {
		return false
	}
	s.k.end(faultOverrun, fmt.Errorf("%w: %d calls are under way, %d were granted", errOverrun, outstanding, s.k.granted.Load()))
	return true
}

// answers returns the number of posted answers that did not come back: chains other than
// RDMA Reads. If chains are posted or come back meanwhile, the number is rather too high.
func (s *responder) answers() int64 {
	back := s.k.back.Load()
	reads := s.reads.posted()
	return max(int64(s.k.sent.Load()-back)-reads, 0)
}
