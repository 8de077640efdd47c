package tcp

import (
	"io"
	"net/netip"

	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// EventKind is what an Event tells.
type EventKind uint8

// Kinds of events.
const (
	// EventConnected: a connection has a seat, and is served.
	EventConnected EventKind = iota + 1
	// EventRefused: a connection got no seat, and was closed.
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
	// Conn is the connection as programs see it; nil where it got no seat.
	Conn *rpc.Conn
	// Err is why; io.EOF after an orderly end.
	Err error
}

// Fault says that the connection ended by something else than either side's wish.
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
