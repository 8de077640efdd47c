package state

import (
	"net/netip"
	"time"
)

// An EventKind is the subject of an Event.
type EventKind uint8

// Kinds of Events.
const (
	// GraceBegan: the grace period after a restart began. Clients may reclaim the state that they
	// held before; no other client gets state. Event.For is the planned length of the grace period.
	// It ends earlier if all these clients have finished, and later if some are still reclaiming
	// state.
	GraceBegan EventKind = iota
	// GraceEnded: the grace period ended. The clients in Event.Clients did not reclaim the state
	// that they held, so other clients may now get it.
	GraceEnded
	// Taken: the server took away all state of Event.Clients[0]. Event.Why is the reason.
	Taken
	// NameInUse: a client at the address Event.By sent the name of Event.Clients[0], which is
	// active at another address or under another principal. The client at Event.By has to wait.
	NameInUse
)

// An Event is a notice to the administrator about clients. Its Kind says what the other fields
// mean.
type Event struct {
	Kind    EventKind
	Clients []Record
	By      netip.Addr
	For     time.Duration
	Why     Why
}

// A Why is a reason for taking away a client's state.
type Why uint8

// Values of Why.
const (
	// Wanted: the client's lease ran out, and another client wanted its state.
	Wanted Why = iota
	// Named: the client's lease ran out, and another client identified itself by the same name.
	Named
	// Swept: the client's lease ran out longer ago than Config.Courtesy (or than two leases, if the
	// client held locks), or the server needed its memory, its entry in the table of clients, or
	// its open files.
	Swept
	// Greedy: the clients of the client's address held so much memory, so many open files or so
	// many entries in the table of clients that the clients of another address got too little.
	Greedy
)

// tell calls Config.Event. The caller holds no lock.
func (m *Manager) tell(e *Event) {
	if m.cfg.Event != nil {
		m.cfg.Event(e)
	}
}
