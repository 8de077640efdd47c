package tcp

import (
	"io"
	"net/netip"
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// counters holds the counts of a Server or of a Conn.
type counters struct {
	accepted, refused, stalled atomic.Uint64
	calls, replies             atomic.Uint64
	malformed, tooLong, stray  atomic.Uint64
	gated                      atomic.Uint64
	received, sent             atomic.Uint64 // bytes of connections that have ended
}

// Stats is a snapshot of a Server's counters.
type Stats struct {
	// Connections is the present number of connections, and Accepted the number since the start.
	// Refused counts connections that the Census did not admit, or that came while the server was
	// being closed.
	Connections       int
	Accepted, Refused uint64
	// Stalled counts connections that the server ended at a deadline (Config.Stall,
	// Config.Unanswered).
	Stalled uint64
	// Calls counts records passed to the RPC server, Replies the replies sent.
	Calls, Replies uint64
	// Malformed counts records that are neither call nor reply; TooLong counts records that
	// exceeded MaxRecord and ended their connection; Stray counts replies that belong to no
	// call.
	Malformed, TooLong, Stray uint64
	// Gated counts how often the server stopped reading from a connection because of its calls
	// under way, their memory, or its replies that waited to be sent (Config.MaxInFlight,
	// mem.Share.Full, Config.MaxQueue).
	Gated uint64
	// Received and Sent are in bytes, record marks included.
	Received, Sent uint64
	// InFlight is the number of calls that now run on other goroutines or wait for memory. Queued
	// is the number of bytes that wait to be sent.
	InFlight, Queued int64
}

// Stats returns the counters of this moment.
func (s *Server) Stats() Stats {
	n := &s.count
	st := Stats{
		Accepted: n.accepted.Load(), Refused: n.refused.Load(), Stalled: n.stalled.Load(),
		Calls: n.calls.Load(), Replies: n.replies.Load(),
		Malformed: n.malformed.Load(), TooLong: n.tooLong.Load(), Stray: n.stray.Load(),
		Gated:    n.gated.Load(),
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

// EventKind is the kind of an Event.
type EventKind uint8

// Kinds of events.
const (
	// EventConnected: the Census has admitted a connection, which the server now serves.
	EventConnected EventKind = iota + 1
	// EventRefused: a connection was closed at once, because the Census did not admit it, or
	// because the server was being closed.
	EventRefused
	// EventClosed: a connection has ended.
	EventClosed
)

func (k EventKind) String() string {
	switch k {
	case EventConnected:
		return "connected"
	case EventRefused:
		return "refused"
	case EventClosed:
		return "closed"
	}
	return "EventKind(?)"
}

// An Event is something that happened to a connection of a Server.
type Event struct {
	Kind        EventKind
	Peer, Local netip.AddrPort
	// Conn is the connection as RPC programs see it. It is nil in an EventRefused.
	Conn *rpc.Conn
	// Err is the reason for the refusal or the end of the connection. It is io.EOF after an orderly
	// end.
	Err error
}

// Fault reports whether the connection ended because of an error, or was ended or refused by the
// Census. It returns false if one of the sides closed the connection in an orderly way, or if the
// connection was idle.
func (e *Event) Fault() bool {
	switch e.Err {
	case nil, io.EOF, errIdle, errClosing, errLeft:
		return false
	}
	return true
}

func (c *Config) event(e Event) {
	if c.Event != nil {
		c.Event(e)
	}
}
