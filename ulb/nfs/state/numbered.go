package state

import (
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A Request is a numbered request of an owner (minor version 0), so that the Manager can tell a repeated
// request from another one that has the same sequence number.
type Request struct {
	Operation uint32
	// Opens is true if the request is an OPEN.
	Opens bool
	By    Principal
	// Export and File are the current file handle: a Reply also makes a file handle the current one, so it
	// is only for callers that may use this export.
	Export    uint32
	File      vfs.Handle
	Arguments uint64 // a hash
}

// A Reply is the reply to a numbered request of an owner (RFC 7530 §9.1.9). It is immutable.
type Reply struct {
	To Request
	// Status is the protocol's status, and Body the encoded reply after it.
	Status int32
	Body   []byte
	// Current is the current file handle after the request, as an nfs4.Object, or nil.
	Current any
}

// An Order is the result of BeginTurn.
type Order uint8

// Orders.
const (
	// Proceed: the request is the owner's next one. The caller executes it, then calls EndTurn.
	Proceed Order = iota
	// Repeated: the request repeats the owner's last one, and gets the same Reply.
	Repeated
	// Misordered: the request is neither the next nor the last one, and gets NFS4ERR_BAD_SEQID.
	Misordered
	// Wait: an earlier request of the owner still runs. After its end (AfterTurn) the caller tries again.
	Wait
)

// turn is the sequence of an owner's numbered requests. The server executes one at a time.
type turn struct {
	begun bool // there was a request: seqid is the number of the last one, last its reply
	seqid uint32
	last  *Reply
	// busy is true while the server executes a request. waiting are the functions to call afterwards.
	busy    bool
	waiting []func()
}

// precedes reports whether seqid is the next number. After the largest number comes 1 (RFC 7530
// §9.1.3), or 0 from clients that simply count on.
func (t *turn) precedes(seqid uint32) bool {
	next := t.seqid + 1
	return seqid == next || next == 0 && seqid == 1
}

// BeginTurn decides what to do with the request r of o, whose sequence number is seqid. With Repeated
// it also returns the Reply to the earlier request.
func (m *Manager) BeginTurn(o *Owner, r *Request, seqid uint32) (Order, *Reply) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := &o.turn
	switch {
	case t.busy:
		return Wait, nil
	case !t.begun:
	case seqid == t.seqid && t.last != nil && t.last.To == *r:
		return Repeated, t.last
	case !o.Confirmed() && r.Opens:
		// An unconfirmed owner starts again, with any number (RFC 7530 §16.18.5).
	case !t.precedes(seqid):
		return Misordered, nil
	}
	t.busy = true
	return Proceed, nil
}

// AfterTurn calls again once, when the current request of o has ended; perhaps before AfterTurn returns.
func (m *Manager) AfterTurn(o *Owner, again func()) {
	m.mu.Lock()
	if o.turn.busy {
		o.turn.waiting = append(o.turn.waiting, again)
		again = func() {}
	}
	m.mu.Unlock()
	again()
}

// EndTurn ends a request for which BeginTurn returned Proceed, and stores the request's sequence
// number and reply. reply is nil if the request does not count: the client then sends its next
// request with the same sequence number (RFC 7530 §9.1.7).
func (m *Manager) EndTurn(o *Owner, seqid uint32, reply *Reply) {
	m.mu.Lock()
	t := &o.turn
	t.busy = false
	waiting := t.waiting
	t.waiting = nil
	if reply != nil {
		t.begun, t.seqid, t.last = true, seqid, reply
	}
	m.mu.Unlock()
	for _, again := range waiting {
		again()
	}
}

// Follows reports whether seqid is the next number of the lock-owner o, or o has no number yet. If
// o holds no locks, every number is accepted: clients reuse the names of lock-owners, and the
// RELEASE_LOCKOWNER for the former lock-owner of this name may still be on its way.
func (m *Manager) Follows(o *Owner, seqid uint32) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !o.turn.begun || o.turn.precedes(seqid) || !o.locksRanges()
}

// Number sets the sequence number of the last request of the lock-owner o. It is for the LOCK with
// which an open-owner introduces o: that request counts for both owners (RFC 7530 §9.1.7).
func (m *Manager) Number(o *Owner, seqid uint32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o.turn.begun, o.turn.seqid, o.turn.last = true, seqid, nil
}

// OwnerOfState returns the owner of a stateid of minor version 0 that is of the given kind. It also
// finds the stateid that the owner closed last, because the client may repeat the CLOSE.
func (m *Manager) OwnerOfState(id *StateID, kind Kind) (*Owner, Verdict) {
	s, verdict := m.named(id, nil)
	switch {
	case verdict != Granted:
		return nil, verdict
	case s.Kind != kind:
		return nil, UnknownID
	}
	return s.Owner, verdict
}

// OwnerOf finds or makes a lock-owner (if locks is true) or an open-owner of minor version 0. If c is
// gone or can get no more state, it returns the error to answer.
func (m *Manager) OwnerOf(c *Client, name []byte, locks bool) (*Owner, Verdict) {
	g := m.acquire()
	defer g.release()
	if c.known.gone {
		return nil, Gone
	}
	g.prune(c)
	if c.holding.owners[ownerKey{locks, string(name)}] == nil && g.crowded(c) {
		return nil, g.full()
	}
	return g.owner(c, name, locks), Granted
}

// ReleaseLockOwner forgets a lock-owner and its stateids (RFC 7530 §16.37). If the owner still
// holds locks, it returns HoldsLocks.
func (m *Manager) ReleaseLockOwner(c *Client, name []byte) Verdict {
	g := m.acquire()
	defer g.release()
	o := c.holding.owners[ownerKey{true, string(name)}]
	switch {
	case o == nil:
		return Granted
	case o.locksRanges():
		return HoldsLocks
	}
	for s := range o.own {
		g.endLock(s)
	}
	g.forgetOwner(o)
	return Granted
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

// abandon ends the opens of an unconfirmed open-owner. A repeated OPEN then opens the file again.
func (g *guard) abandon(o *Owner) {
	o.turn.last = nil
	delete(g.files.unconfirmed, o)
	for _, s := range o.states {
		g.drop(s)
	}
}

// Abandon ends the opens of an open-owner that will not be confirmed (RFC 7530 §16.18.4).
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
