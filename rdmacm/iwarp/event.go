package iwarp

import (
	"errors"
	"net"
	"net/netip"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
)

// EventKind is what an Event tells.
type EventKind uint8

// Kinds of events.
const (
	EventSetupFailed EventKind = iota + 1
	EventConnected
	EventRejected
	EventClosed
	// EventRefused: a connection got no seat, and was closed unheard.
	EventRefused
)

func (k EventKind) String() string {
	switch k {
	case EventSetupFailed:
		return "set-up failed"
	case EventConnected:
		return "connected"
	case EventRejected:
		return "rejected"
	case EventClosed:
		return "closed"
	case EventRefused:
		return "refused"
	}
	return "EventKind(?)"
}

// An Event is something that happened to a connection.
type Event struct {
	Kind  EventKind
	Peer  netip.AddrPort
	Local netip.AddrPort
	// Setup is what was agreed; of EventConnected.
	Setup Setup
	// Err is why; nil after an orderly end.
	Err error
}

// Fault says that the connection was not set up, or ended, by something else than
// either side's wish.
func (e *Event) Fault() bool {
	return e.Err != nil && !errors.Is(e.Err, net.ErrClosed) && !errors.Is(e.Err, rdmacm.ErrAborted)
}

func (p *Provider) event(e Event) {
	if p.cfg.Event != nil {
		p.cfg.Event(e)
	}
}
