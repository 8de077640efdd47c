package state

import "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"

// A Request is what tells numbered requests of an owner apart that have one number: who makes
// them, and what they ask for.
type Request struct {
	Operation nfs4wire.OpNum
	By        Principal
	Arguments uint64 // a digest
}

// A Reply is what a numbered request of an owner was answered (RFC 7530 §9.1.9). It does
// not change.
type Reply struct {
	To     Request
	Status Status
	// Body is what followed the status.
	Body []byte
	// Current is what the request had made the current file handle, as the program
	// writes it, or nil.
	Current any
}

// A Verdict is what becomes of a numbered request.
type Verdict uint8

// Verdicts.
const (
	// Proceed: it is the next. EndTurn ends it.
	Proceed Verdict = iota
	// Repeated: it is the last once more, and gets the same Reply.
	Repeated
	// Misordered: it is neither: NFS4ERR_BAD_SEQID.
	Misordered
	// Wait: the owner's request before it has not ended. AfterTurn tells when it has.
	Wait
)

// turn is how the requests of an owner follow one another.
type turn struct {
	// seqid is the last one's, once any came.
	begun bool
	seqid uint32
	last  *Reply
	// busy: a request is under way, and waiting are to be told of its end.
	busy    bool
	waiting []func()
}

// precedes says whether seqid is the next number. Behind the largest comes 1
// (RFC 7530 §9.1.3), or 0 of clients that just count.
func (t *turn) precedes(seqid uint32) bool {
	next := t.seqid + 1
	return seqid == next || next == 0 && seqid == 1
}

// BeginTurn judges a request of o with number seqid.
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
		// An owner that was not confirmed begins again, with any number
		// (RFC 7530 §16.18.5).
	case !t.precedes(seqid):
		return Misordered, nil
	}
	t.busy = true
	return Proceed, nil
}

// AfterTurn calls again once, when the request of o that is under way has ended. That may
// be before AfterTurn returns.
func (m *Manager) AfterTurn(o *Owner, again func()) {
	m.mu.Lock()
	if o.turn.busy {
		o.turn.waiting = append(o.turn.waiting, again)
		again = func() {}
	}
	m.mu.Unlock()
	again()
}

// EndTurn ends a request that was to proceed. reply is nil where it does not count: the
// client sends the next one with the same number (RFC 7530 §9.1.7).
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

// Follows says whether seqid is the next of the lock-owner o, or o begins with it. One
// that holds no lock may be another one of the same name: clients use names again, and
// their RELEASE_LOCKOWNER may be under way still.
func (m *Manager) Follows(o *Owner, seqid uint32) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !o.turn.begun || o.turn.precedes(seqid) {
		return true
	}
	for s := range o.own {
		if len(s.ranges) > 0 {
			return false
		}
	}
	return true
}

// Number notes the number of a request of o that was another owner's as well: the LOCK
// that an open-owner begins a lock-owner with (RFC 7530 §9.1.7).
func (m *Manager) Number(o *Owner, seqid uint32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o.turn.begun, o.turn.seqid, o.turn.last = true, seqid, nil
}

// OwnerOfState is the owner of a stateid of minor version 0 of the kind given, also of
// the one that he closed last: his CLOSE may come again.
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
