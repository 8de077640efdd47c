package state

import (
	"net/netip"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/census"
)

// An EventKind says what an Event is about.
type EventKind uint8

// Kinds of Events.
const (
	// GraceBegan: Clients hold something since before the restart and may claim it, for
	// For at least; others wait.
	GraceBegan EventKind = iota
	// GraceEnded: Clients did not come to claim what they held; it is free.
	GraceEnded
	// Taken: what the first of Clients held was taken from it, because of Why.
	Taken
	// NameInUse: a client at By has the name of the first of Clients, which is at work at
	// another address or under another principal, and has to wait.
	NameInUse
)

// An Event is something that an administrator wants to know of the clients.
type Event struct {
	Kind    EventKind
	Clients []Record
	By      netip.Addr
	For     time.Duration
	Why     Why
}

// Why says why something was taken from a client.
type Why uint8

// Reasons to take from a client what it held.
const (
	// Wanted: its lease ran out, and another client wanted what it held.
	Wanted Why = iota
	// Named: its lease ran out, and another client has its name.
	Named
	// Swept: its lease ran out, and was so for too long, or room was short.
	Swept
	// Greedy: clients of its address held so much that others got nothing.
	Greedy
)

// tell calls Config.Event. No lock is held.
func (m *Manager) tell(e *Event) {
	if m.cfg.Event != nil {
		m.cfg.Event(e)
	}
}

// inUseBy tells that a request has the name of a client that is not the one that it is from.
func (m *Manager) inUseBy(old *Client, id *Identity) (after func()) {
	e := Event{Kind: NameInUse, Clients: []Record{m.recordOf(old)}, By: census.Client(id.Address)}
	return func() { m.tell(&e) }
}
