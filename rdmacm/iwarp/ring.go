package iwarp

import "sync/atomic"

// A ring is what a receiver reads the socket into. It is used from front to
// back; the little that is left over moves to the front again.
type ring struct {
	buf [RingSize]byte
}

// rings is a bounded stock of rings. A receiver keeps one only while it has
// input to work on, and works without ever blocking: one that waits for a ring
// waits for processor time, not for a peer.
type rings struct {
	free chan *ring
	made atomic.Int64
}

func (s *rings) init(n int) { s.free = make(chan *ring, n) }

func (s *rings) borrow() *ring {
	select {
	case r := <-s.free:
		return r
	default:
	}
	if s.made.Add(1) <= int64(cap(s.free)) {
		return new(ring)
	}
	s.made.Add(-1)
	return <-s.free
}

func (s *rings) giveBack(r *ring) { s.free <- r }
