package iwarp

import "net/netip"

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

func (p *Provider) event(e Event) {
	if p.cfg.Event != nil {
		p.cfg.Event(e)
	}
}
