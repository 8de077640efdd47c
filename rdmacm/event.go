package rdmacm

import (
	"errors"
	"net"
	"net/netip"
)

// EventKind is the kind of an Event.
type EventKind uint8

// Kinds of events.
const (
	EventSetupFailed EventKind = iota + 1
	EventConnected
	EventRejected
	EventClosed
	// EventRefused: Seats refused the connection. The provider closed it and read nothing from it.
	EventRefused
)

var eventNames = [...]string{"EventKind(?)", "set-up failed", "connected", "rejected", "closed", "refused"}

func (k EventKind) String() string {
	if int(k) >= len(eventNames) {
		return eventNames[0]
	}
	return eventNames[k]
}

// An Event is something that happened to a connection.
type Event struct {
	Kind EventKind
	Peer netip.AddrPort
	// Dialed is true if a call of Dial failed, which returns Err to its caller too. It is false for all other
	// events, also those of connections that Dial made.
	Dialed bool
	// Err is the reason; nil after an orderly end.
	Err error
}

// Fault reports whether the set-up failed, or the connection ended although neither side wanted
// to end it.
func (e *Event) Fault() bool {
	return e.Err != nil && !errors.Is(e.Err, net.ErrClosed) && !errors.Is(e.Err, ErrAborted)
}
