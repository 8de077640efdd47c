package state

import "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"

// A Request identifies a numbered request of an owner among requests with the same number, by its
// caller and its content.
type Request struct {
	Operation nfs4wire.OpNum
	By        Principal
	Arguments uint64 // a hash
}

// A Reply is the reply to a numbered request of an owner (RFC 7530 §9.1.9). It is immutable.
type Reply struct {
	To     Request
	Status Status
	// Body is the encoded reply after the status.
	Body []byte
	// Current is the current file handle after the request, in the form that nfs40 uses, or nil.
	Current any
}

// A Verdict is the decision on a numbered request.
type Verdict uint8

// Verdicts.
const (
	// Proceed: it is the next request. The caller ends it with EndTurn.
	Proceed Verdict = iota
	// Repeated: it repeats the last request, and gets the same Reply.
	Repeated
	// Misordered: it is neither. The answer is NFS4ERR_BAD_SEQID.
	Misordered
	// Wait: the owner's earlier request has not ended. AfterTurn reports its end.
	Wait
)

// turn is the sequence of an owner's requests.
type turn struct {
	// seqid is the number of the last request, if begun is set.
	begun bool
	seqid uint32
	last  *Reply
	// busy: a request is under way. waiting are the functions to call when it ends.
	busy    bool
	waiting []func()
}

// precedes reports whether seqid is the next number. After the largest number comes 1 (RFC 7530
// §9.1.3), or 0 from clients that simply count on.
func (t *turn) precedes(seqid uint32) bool {
	next := t.seqid + 1
	return seqid == next || next == 0 && seqid == 1
}

// BeginTurn decides on a request of o with the number seqid.
func (m *Manager) BeginTurn(o *Owner, r *Request, seqid uint32) (Verdict, *Reply) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := &o.turn
	switch {
	case t.busy:
		return Wait, nil
	case !t.begun:
	case seqid == t.seqid && t.last != nil && t.last.To == *r:
		return Repeated, t.last
	case !o.Confirmed() && r.Operation == nfs4wire.OpOpen:
		// An unconfirmed owner starts again, with any number (RFC 7530 §16.18.5).
	case !t.precedes(seqid):
		return Misordered, nil
	}
	t.busy = true
	return Proceed, nil
}

// AfterTurn calls again once, when the current request of o has ended. That may happen before
// AfterTurn returns.
func (m *Manager) AfterTurn(o *Owner, again func()) {
	m.mu.Lock()
	if o.turn.busy {
		o.turn.waiting = append(o.turn.waiting, again)
		again = func() {}
	}
	m.mu.Unlock()
	again()
}

// EndTurn ends a request with the Verdict Proceed. reply is nil if the request does not count:
// the client then sends its next one with the same number (RFC 7530 §9.1.7).
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

// Follows reports whether seqid is the next number of the lock-owner o, or o has none yet. If o
// holds no locks, any number will do: clients reuse the names of lock-owners, and the
// RELEASE_LOCKOWNER for the old one may still be on its way.
func (m *Manager) Follows(o *Owner, seqid uint32) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !o.turn.begun || o.turn.precedes(seqid) {
		return true
	}
	for s := range o.own {
		if len(s.held.Ranges()) > 0 {
			return false
		}
	}
	return true
}

// Number sets the number of a request of o that another owner made as well: the LOCK with which
// an open-owner introduces a lock-owner (RFC 7530 §9.1.7).
func (m *Manager) Number(o *Owner, seqid uint32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o.turn.begun, o.turn.seqid, o.turn.last = true, seqid, nil
}

// OwnerOfState returns the owner of a stateid of minor version 0 with the given kind. It also
// finds the stateid that the owner closed last, because the client may repeat the CLOSE.
func (m *Manager) OwnerOfState(id *nfs4wire.StateID4, kind Kind) (*Owner, Status) {
	s, status := m.named(id, nil)
	switch {
	case status != nfs4wire.NFS4OK:
		return nil, status
	case s.Kind != kind:
		return nil, nfs4wire.NFS4ErrBadStateID
	}
	return s.Owner, status
}
