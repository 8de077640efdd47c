package tcp

import (
	"io"
	"net/netip"

	"github.com/nfsrdmad/nfsrdmad/rpc"
)

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
	case nil, io.EOF, errIdle, errClosing:
		return false
	}
	return true
}

func (c *Config) event(e Event) {
	if c.Event != nil {
		c.Event(e)
	}
}
