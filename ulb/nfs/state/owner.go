package state

import (
	"sync/atomic"
	"time"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// An Owner is an open-owner or a lock-owner of a client, usually a process on the client's
// machine.
type Owner struct {
	Client *Client

	key ownerKey
	// confirmed is false for an open-owner of minor version 0 until its first OPEN is confirmed.
	confirmed atomic.Bool

	// Manager.mu guards the fields below.

	known  bool                // true while the client's tables contain the owner
	states map[shown]*State    // opens of an open-owner, by file
	own    map[*State]struct{} // lock states of a lock-owner
	idle   time.Time           // when the owner lost its last state, or was created
	turn   turn
	// closed is the state that the owner's latest CLOSE ended, in minor version 0. Its stateid
	// stays known until the next CLOSE, because the client may repeat the CLOSE.
	closed *State
}

// An ownerKey identifies an owner of one client. An open-owner and a lock-owner may have the same
// name, which the client chose.
type ownerKey struct {
	locks bool // it is a lock-owner
	name  string
}

// Name is the client's name for the owner.
func (o *Owner) Name() string { return o.key.name }

// Confirmed reports whether the client may use the owner's stateids.
func (o *Owner) Confirmed() bool { return o.confirmed.Load() }

// owner finds or makes the owner of c with this name: a lock-owner if locks is true, else an
// open-owner. It returns nil if c is gone. The caller has checked that c may use more memory
// (crowded).
func (g *guard) owner(c *Client, name []byte, locks bool) *Owner {
	if o := c.holding.owners[ownerKey{locks, string(name)}]; o != nil {
		return o
	}
	g.prune(c)
	if c.known.gone {
		return nil
	}
	o := &Owner{Client: c, key: ownerKey{locks, string(name)}, known: true}
	o.confirmed.Store(locks || c.Minor != 0)
	c.holding.owners[o.key] = o
	g.files.usage.Owners++
	g.charge(c, o.size())
	g.rest(o)
	return o
}

// size returns the memory of o, in bytes.
func (o *Owner) size() int {
	if o.Client.Minor == 0 {
		return sizeOwner + sizeNumbered + len(o.key.name)
	}
	return sizeOwner + len(o.key.name)
}

// OwnerOf finds or makes a lock-owner (if locks is true) or an open-owner whose requests are
// numbered (minor version 0). If c is gone or can get no more state, it returns the error to
// answer.
func (m *Manager) OwnerOf(c *Client, name []byte, locks bool) (*Owner, Status) {
	g := m.acquire()
	defer g.release()
	if c.known.gone {
		return nil, gone(c)
	}
	g.prune(c)
	if c.holding.owners[ownerKey{locks, string(name)}] == nil && g.crowded(c) {
		return nil, g.full(c)
	}
	return g.owner(c, name, locks), nfs4wire.NFS4OK
}

func (o *Owner) holds() bool { return len(o.own) > 0 || len(o.states) > 0 }

// rest stores that o holds no state from now on. In minor version 0 it adds o to holdings.idle,
// from which prune forgets owners.
func (g *guard) rest(o *Owner) {
	if o.Client.Minor == 0 && o.idle.IsZero() {
		h := &o.Client.holding
		h.idle = append(h.idle, o)
	}
	o.idle = time.Now()
}

// prune forgets owners of c that have held no state for longer than a lease. While c can get no
// more state (see crowded), it forgets owners that hold no state even earlier, the longest idle
// first. Their last replies are lost (RFC 7530 §9.1.10).
func (g *guard) prune(c *Client) {
	h := &c.holding
	for n := len(h.idle); n > 0; n-- {
		o := h.idle[0]
		long := time.Since(o.idle) > g.cfg.Lease || g.crowded(c)
		if !o.holds() && !o.turn.busy && !long {
			return // the later ones in the list became idle later
		}
		h.idle[0] = nil
		h.idle = h.idle[1:]
		switch {
		case o.holds():
			o.idle = time.Time{} // the next call of rest appends o to the list again
		case o.turn.busy:
			h.idle = append(h.idle, o)
		default:
			g.forgetOwner(o)
		}
	}
}

func (g *guard) forgetOwner(o *Owner) {
	if !o.known {
		return
	}
	o.known = false
	delete(g.files.unconfirmed, o)
	g.outlive(o, nil)
	delete(o.Client.holding.owners, o.key)
	g.files.usage.Owners--
	g.charge(o.Client, -o.size())
}

// outlive keeps the stateid of s, which a CLOSE has just ended, for a repeated CLOSE. It drops the
// stateid of o that it kept before. If s is nil, it drops that stateid and keeps no other.
func (g *guard) outlive(o *Owner, s *State) {
	if o.closed != nil {
		g.files.slab.remove(o.closed)
	}
	o.closed = s
}

// ReleaseLockOwner forgets a lock-owner and its stateids (RFC 7530 §16.37). If the owner still
// holds locks, it returns NFS4ERR_LOCKS_HELD.
func (m *Manager) ReleaseLockOwner(c *Client, name []byte) Status {
	g := m.acquire()
	defer g.release()
	o := c.holding.owners[ownerKey{true, string(name)}]
	switch {
	case o == nil:
		return nfs4wire.NFS4OK
	case o.locksRanges():
		return nfs4wire.NFS4ErrLocksHeld
	}
	for s := range o.own {
		g.endLock(s)
	}
	g.forgetOwner(o)
	return nfs4wire.NFS4OK
}

// locksRanges reports whether the lock-owner o has locked any range.
func (o *Owner) locksRanges() bool {
	for s := range o.own {
		if len(s.held.Ranges()) > 0 {
			return true
		}
	}
	return false
}

// abandon ends the opens of o, an unconfirmed open-owner, and forgets its last reply. If the client
// repeats its OPEN, the Manager therefore opens the file again.
func (g *guard) abandon(o *Owner) {
	o.turn.last = nil
	delete(g.files.unconfirmed, o)
	for _, s := range o.states {
		g.drop(s)
	}
}

// Abandon ends the unconfirmed opens of an open-owner that will not be confirmed (RFC 7530
// §16.18.4).
func (m *Manager) Abandon(o *Owner) {
	g := m.acquire()
	defer g.release()
	if !o.Confirmed() { // a lock-owner is always confirmed
		g.abandon(o)
	}
}

// sweepUnconfirmed ends opens that were not confirmed within a lease (RFC 7530 §16.18.5), because
// they may deny the file to other owners, although the client may never have got the answer.
func (m *Manager) sweepUnconfirmed() {
	g := m.acquire()
	defer g.release()
	now := g.now()
	for o, since := range g.files.unconfirmed {
		if now-since > g.cfg.Lease && !o.turn.busy {
			g.abandon(o)
			g.forgetOwner(o)
		}
	}
}
