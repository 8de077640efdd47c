package census

import (
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"
)

// A Stage is how far a connection has come.
type Stage uint8

// Stages, in their order.
const (
	// Arriving: the set-up is under way.
	Arriving Stage = iota
	// Silent: set up; no whole message has come.
	Silent
	// Stranger: a whole message has come, and no call that makes the peer known.
	Stranger
	// Known: the peer made a call that a stranger could not make.
	Known

	stages
)

// String names the stage.
func (s Stage) String() string {
	if s >= stages {
		return fmt.Sprintf("Stage(%d)", uint8(s))
	}
	return [stages]string{"arriving", "silent", "stranger", "known"}[s]
}

// A Holder is the connection that has a seat, as a pointer. The Census calls it
// from any goroutine and with no lock held.
type Holder interface {
	// End ends the connection, for the reason given. It must not wait. It is
	// called once at most; the seat is to be left all the same, when nothing of
	// the connection is left.
	End(why Reason)
	// Busy says that the connection is not late: a call of the peer is under
	// way, so that it may be this side that the peer waits for.
	Busy() bool
}

// A Peer is the other end of a connection.
type Peer struct {
	Addr netip.AddrPort
	// Transport is by what, such as "tcp" or "rdma"; for events.
	Transport string
}

// privileged says that the peer's port is one that only root can use, on Unix.
func (p Peer) privileged() bool { return p.Addr.Port() < 1024 }

// A Seat is a connection's place. Its methods may be called from any goroutine;
// on a nil Seat, that of a connection which is not counted, they do nothing.
type Seat struct {
	census  *Census
	peer    Peer
	arrived time.Time
	heard   atomic.Bool

	// The rest is guarded by census.mu.
	address *address // nil: the seat was lost, or left
	stage   Stage
	step    uint64    // which of all steps to another stage was its last
	since   time.Time // in this stage; of a known peer's: used last
	holder  Holder
	// moved grows with what the connection does; seen is what it was last.
	moved *atomic.Uint64
	seen  uint64
	links [queues]link
	lost  Reason // or 0
	left  bool
}

// leastIdle is after what time without use a connection may go for another one of the same
// address.
const leastIdle = sampleEvery

// idle says that a known peer has not used its connection for a while. census.mu is held.
func (s *Seat) idle(now time.Time) bool {
	return s != nil && now.Sub(s.since) >= leastIdle && (s.moved == nil || s.moved.Load() == s.seen)
}

// Hold says that the connection is set up, and which Holder the seat has from now on; it
// may be called again, by another holder. moved grows with what the connection
// does: it tells which known peer has been idle for longest. If the seat was lost
// before, Hold calls h.End.
func (s *Seat) Hold(h Holder, moved *atomic.Uint64) {
	if s == nil {
		return
	}
	c := s.census
	c.mu.Lock()
	s.holder, s.moved = h, moved
	if s.address == nil {
		lost := s.lost
		c.mu.Unlock()
		if lost != 0 {
			h.End(lost)
		}
		return
	}
	if s.stage == Arriving {
		c.move(s, Silent, time.Now())
		c.arm()
	}
	c.mu.Unlock()
}

// Heard says that a whole message has come from the peer. It takes no lock.
func (s *Seat) Heard() {
	if s != nil {
		s.heard.Store(true)
	}
}

// Known says that the peer made a call that a stranger could not make.
func (s *Seat) Known() {
	if s == nil {
		return
	}
	c := s.census
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.address == nil || s.stage == Known {
		return
	}
	c.move(s, Known, time.Now())
	if s.moved != nil {
		s.seen = s.moved.Load()
	}
	c.arm()
}

// Leave gives the seat up: nothing of the connection is left. Again, it does
// nothing.
func (s *Seat) Leave() {
	if s == nil {
		return
	}
	c := s.census
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case s.left:
	case s.address == nil:
		c.leaving--
		if c.vacated != nil {
			close(c.vacated)
			c.vacated = nil
		}
	default:
		c.takeOut(s)
	}
	s.left, s.holder, s.moved = true, nil, nil
}
