package state

import (
	"net/netip"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/clientaddr"
)

// An EventKind is the subject of an Event.
type EventKind uint8

// Kinds of Events.
const (
	// GraceBegan: after the restart Clients may claim the state that they held before. Other
	// requests for state wait, for at least the time For.
	GraceBegan EventKind = iota
	// GraceEnded: Clients did not claim the state that they held. Other clients may now get it.
	GraceEnded
	// Taken: the server took away all state of Clients[0], for the reason Why.
	Taken
	// NameInUse: a client at address By uses the name of Clients[0], which is at work at another
	// address or under another principal. The new one has to wait.
	NameInUse
)

// An Event is news about the clients for the administrator.
type Event struct {
	Kind    EventKind
	Clients []Record
	By      netip.Addr
	For     time.Duration
	Why     Why
}

// Why is the reason why the server took away a client's state.
type Why uint8

// Reasons to take away a client's state.
const (
	// Wanted: the client's lease ran out, and another client wanted its state.
	Wanted Why = iota
	// Named: the client's lease ran out, and another client uses its name.
	Named
	// Swept: the client's lease ran out longer ago than Config.Courtesy, or the server was short
	// of room.
	Swept
	// Greedy: the clients of its address held so much that other addresses got too little.
	Greedy
)

// tell calls Config.Event. The caller holds no lock.
func (m *Manager) tell(e *Event) {
	if m.cfg.Event != nil {
		m.cfg.Event(e)
	}
}

// inUseBy returns a function that reports NameInUse: the request of id uses the name of the
// client old.
func (m *Manager) inUseBy(old *Client, id *Identity) (after func()) {
	e := Event{Kind: NameInUse, Clients: []Record{m.recordOf(old)}, By: clientaddr.Of(id.Address)}
	return func() { m.tell(&e) }
}
