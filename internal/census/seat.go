package census

import (
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/queue"
)

// A Stage is a step in the life of a connection.
type Stage uint8

// Stages, in their order.
const (
	Arriving Stage = iota // the set-up is under way
	Silent                // set up; no whole message has come
	Stranger              // a whole message has come, but no call that makes the peer known
	// Known: a protocol accepted a call with which the peer showed something that strangers do not
	// have (rpc.Conn.Known).
	Known

	stages

	// gone is the stage of a Seat that has not entered yet, or was given up or taken away.
	gone = stages
)

// String names the stage.
func (s Stage) String() string {
	if s >= stages {
		return fmt.Sprintf("Stage(%d)", uint8(s))
	}
	return [stages]string{"arriving", "silent", "stranger", "known"}[s]
}

// A Holder is the connection that has a seat. Its type is a pointer, so that the Census can compare
// Holders. The Census calls it from any goroutine and with no lock held.
type Holder interface {
	// End ends the connection, for the given reason. It must not wait. The Census calls it at
	// most once. The connection still has to leave its seat when it is closed.
	End(why error)
	// Busy reports whether a call of the peer is under way. If so, the peer may be waiting for the
	// reply, and the Census does not end the connection at its deadline.
	Busy() bool
}

// A Peer is the other end of a connection.
type Peer struct {
	Addr netip.AddrPort
	// Transport is the name of the transport, such as "tcp" or "rdma", for events.
	Transport string
}

// privileged reports whether only root can use the peer's port, on Unix.
func (p Peer) privileged() bool { return p.Addr.Port() < 1024 }

// A Seat is the Census's record of one connection. Its methods may be called from any goroutine. A
// nil Seat stands for a connection that is not counted; its methods do nothing.
type Seat struct {
	queue.Links[Seat] // links in a queue of its address; guarded by census.mu

	census  *Census
	peer    Peer
	arrived time.Time
	heard   atomic.Bool

	// The rest is guarded by census.mu.
	address *address
	stage   Stage
	step    uint64    // number of its last change of stage, among the changes of all seats
	since   time.Time // entry to this stage; for a known peer, last use
	holder  Holder
	// moved is a counter that grows when the connection is used. seen is its value at the last
	// sample.
	moved *atomic.Uint64
	seen  uint64
	lost  Reason // why the seat was taken away, or 0
	left  bool
}

// leastIdle is how long a peer in the stage Known must not have used its connection before a
// newcomer of the same address may displace it.
const leastIdle = sampleEvery

// idleLocked reports whether the peer of s, a seat in the stage Known, has not used its connection
// for leastIdle. It returns false if s is nil.
func (s *Seat) idleLocked(now time.Time) bool {
	return s != nil && now.Sub(s.since) >= leastIdle && (s.moved == nil || s.moved.Load() == s.seen)
}

// Hold notes that the connection is set up, and replaces its Holder by h. It may be called again
// for another Holder. moved is a counter that grows when the connection is used; the Census reads
// it to learn which known peer has been idle longest. If the seat was taken away before, Hold calls
// h.End.
func (s *Seat) Hold(h Holder, moved *atomic.Uint64) {
	if s == nil {
		return
	}
	c := s.census
	c.mu.Lock()
	s.holder, s.moved = h, moved
	if s.stage == gone {
		lost := s.lost
		c.mu.Unlock()
		if lost != 0 {
			h.End(lost)
		}
		return
	}
	if s.stage == Arriving {
		c.moveLocked(s, Silent, time.Now())
		c.armLocked()
	}
	c.mu.Unlock()
}

// Heard notes that a whole message has come from the peer. It takes no lock.
func (s *Seat) Heard() {
	if s != nil {
		s.heard.Store(true)
	}
}

// Known sets the stage to Known. The transport calls it when the peer becomes known
// (rpc.Conn.OnKnown).
func (s *Seat) Known() {
	if s == nil {
		return
	}
	c := s.census
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.stage >= Known {
		return
	}
	c.moveLocked(s, Known, time.Now())
	if s.moved != nil {
		s.seen = s.moved.Load()
	}
	c.armLocked()
}

// Leave gives the seat up. The transport calls it when the connection and its descriptor are
// closed. A second call does nothing.
func (s *Seat) Leave() {
	if s == nil {
		return
	}
	c := s.census
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case s.left:
	case s.stage == gone:
		c.leaving--
		if c.vacated != nil {
			close(c.vacated)
			c.vacated = nil
		}
	default:
		c.moveLocked(s, gone, s.since)
	}
	s.left, s.holder, s.moved = true, nil, nil
}
