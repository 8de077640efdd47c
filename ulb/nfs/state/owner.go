package state

import (
	"sync/atomic"
	"time"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// An Owner is an open-owner or a lock-owner of a client: a process there, as a rule.
type Owner struct {
	Client *Client
	// Locks: it is a lock-owner.
	Locks bool

	name string
	// confirmed is false for an open-owner of minor version 0 whose first OPEN was
	// not confirmed yet.
	confirmed atomic.Bool

	// What follows is guarded by Manager.mu.

	known  bool                // among its client's
	states map[shown]*State    // of an open-owner, by what is open
	own    map[*State]struct{} // of a lock-owner
	idle   time.Time           // since when it has had none
	turn   turn
	// closed is the state that a CLOSE of minor version 0 ended last. Its stateid is
	// known for as long, so that the CLOSE can come again.
	closed *State
}

// Name is what the client calls the owner.
func (o *Owner) Name() string { return o.name }

// Confirmed says that the owner's stateids may be used.
func (o *Owner) Confirmed() bool { return o.confirmed.Load() }

// owners are the open-owners or the lock-owners of a client.
func (h *holdings) owners(locks bool) *map[string]*Owner {
	if locks {
		return &h.lockOwners
	}
	return &h.openOwners
}

// owner finds or makes an owner. It is nil where c is gone. Whether there is room was asked
// before.
func (m *Manager) owner(c *Client, name []byte, locks bool) *Owner {
	owners := c.holding.owners(locks)
	if o := (*owners)[string(name)]; o != nil {
		return o
	}
	m.prune(c)
	if c.holding.over {
		return nil
	}
	o := &Owner{Client: c, Locks: locks, name: string(name), known: true}
	o.confirmed.Store(locks || c.Minor != 0)
	if *owners == nil {
		*owners = make(map[string]*Owner)
	}
	(*owners)[o.name] = o
	m.files.usage.owners++
	m.charge(c, o.size())
	m.rest(o)
	return o
}

// size is what o takes, in bytes.
func (o *Owner) size() int {
	if o.Client.Minor == 0 {
		return sizeOwner + sizeNumbered + len(o.name)
	}
	return sizeOwner + len(o.name)
}

// OwnerOf finds or makes an open-owner or lock-owner of c, for requests that it numbers
// (minor version 0).
func (m *Manager) OwnerOf(c *Client, name []byte, locks bool) (*Owner, Status) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.holding.over {
		return nil, gone(c)
	}
	m.prune(c)
	if (*c.holding.owners(locks))[string(name)] == nil && m.crowded(c) {
		return nil, m.full(c)
	}
	return m.owner(c, name, locks), nfs4wire.NFS4OK
}

// joined counts a state of o.
func (m *Manager) joined(o *Owner, s *State) {
	if s.Kind == KindLock {
		if o.own == nil {
			o.own = make(map[*State]struct{})
		}
		o.own[s] = struct{}{}
		return
	}
	if o.states == nil {
		o.states = make(map[shown]*State)
	}
	o.states[s.shown()] = s
}

// left takes a state from o. An owner without any is forgotten, in minor version 0
// after a while: its last request may come again.
func (m *Manager) left(o *Owner, s *State) {
	if s.Kind == KindLock {
		delete(o.own, s)
	} else {
		delete(o.states, s.shown())
	}
	if o.holds() {
		return
	}
	if o.Client.Minor != 0 {
		m.forgetOwner(o)
		return
	}
	m.rest(o)
}

func (o *Owner) holds() bool { return len(o.own) > 0 || len(o.states) > 0 }

// rest notes that o holds nothing now.
func (m *Manager) rest(o *Owner) {
	if o.Client.Minor == 0 && o.idle.IsZero() {
		h := &o.Client.holding
		h.idle = append(h.idle, o)
	}
	o.idle = time.Now()
}

// prune forgets owners of c that have held nothing for longer than a lease, and where there is
// no room those that have done so for longest. Their last replies go with them
// (RFC 7530 §9.1.10).
func (m *Manager) prune(c *Client) {
	h := &c.holding
	for n := len(h.idle); n > 0; n-- {
		o := h.idle[0]
		long := time.Since(o.idle) > m.cfg.Lease || m.crowded(c)
		if !o.holds() && !o.turn.busy && !long {
			return // those behind it have rested for less
		}
		h.idle[0] = nil
		h.idle = h.idle[1:]
		switch {
		case o.holds():
			o.idle = time.Time{} // it will be noted again
		case o.turn.busy:
			h.idle = append(h.idle, o)
		default:
			m.forgetOwner(o)
		}
	}
}

func (m *Manager) forgetOwner(o *Owner) {
	if !o.known {
		return
	}
	o.known = false
	delete(m.files.unconfirmed, o)
	m.outlive(o, nil)
	delete(*o.Client.holding.owners(o.Locks), o.name)
	m.files.usage.owners--
	m.charge(o.Client, -o.size())
}

// outlive keeps the stateid of s, which is gone, instead of the one kept before.
func (m *Manager) outlive(o *Owner, s *State) {
	if o.closed != nil {
		m.files.slab.remove(o.closed, o.Client.holding.over)
	}
	o.closed = s
}

// ReleaseLockOwner forgets a lock-owner with its stateids (RFC 7530 §16.37). What holds
// locks is not forgotten: NFS4ERR_LOCKS_HELD.
func (m *Manager) ReleaseLockOwner(c *Client, name []byte) Status {
	var l leftovers
	m.mu.Lock()
	o := c.holding.lockOwners[string(name)]
	if o == nil {
		m.mu.Unlock()
		return nfs4wire.NFS4OK
	}
	for s := range o.own {
		if len(s.ranges) > 0 {
			m.mu.Unlock()
			return nfs4wire.NFS4ErrLocksHeld
		}
	}
	for s := range o.own {
		m.endLock(s, false, &l)
	}
	m.forgetOwner(o)
	m.mu.Unlock()
	m.finish(&l)
	return nfs4wire.NFS4OK
}
