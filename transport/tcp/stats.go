package tcp

import "sync/atomic"

// counters are a server's, or a dialled connection's.
type counters struct {
	accepted, refused, stalled atomic.Uint64
	starved                    atomic.Uint64
	calls, replies             atomic.Uint64
	malformed, tooLong, stray  atomic.Uint64
	gated, waited              atomic.Uint64
	received, sent             atomic.Uint64 // of connections that ended
}

// Stats is a snapshot of a Server's counters.
type Stats struct {
	// Connections now; Accepted in all; Refused because there were too many.
	Connections       int
	Accepted, Refused uint64
	// Stalled lost their connection because a deadline passed; Starved because
	// memory was short and they made no progress.
	Stalled, Starved uint64
	// Calls are records handed to the RPC server, Replies those sent.
	Calls, Replies uint64
	// Malformed records are neither call nor reply; TooLong ended their
	// connection; Stray replies belong to no call.
	Malformed, TooLong, Stray uint64
	// Gated is how often a connection was not read from because it had too
	// much under way; Waited how often a call waited for memory.
	Gated, Waited uint64
	// Received and Sent are in bytes, record marks included.
	Received, Sent uint64
	// InFlight are calls beside those in place; Queued bytes to be sent.
	InFlight, Queued int64
}

// Stats returns the counters of this moment.
func (s *Server) Stats() Stats {
	n := &s.count
	st := Stats{
		Accepted: n.accepted.Load(), Refused: n.refused.Load(), Stalled: n.stalled.Load(), Starved: n.starved.Load(),
		Calls: n.calls.Load(), Replies: n.replies.Load(),
		Malformed: n.malformed.Load(), TooLong: n.tooLong.Load(), Stray: n.stray.Load(),
		Gated: n.gated.Load(), Waited: n.waited.Load(),
		Received: n.received.Load(), Sent: n.sent.Load(),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st.Connections = len(s.conns)
	for c := range s.conns {
		st.Received += c.received.Load()
		st.Sent += c.out.written.Load()
		st.InFlight += c.inFlight.Load()
		st.Queued += c.out.queued.Load()
	}
	return st
}
