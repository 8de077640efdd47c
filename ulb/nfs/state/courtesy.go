package state

import (
	"maps"
	"slices"
)

// courtesy collects the clients whose state conflicts with a request.
type courtesy struct {
	// firm is true if one of these clients has a valid lease. The request then fails.
	firm    bool
	clients map[*Client]struct{}
}

// blame stores in l that state of c conflicts with the request. The caller holds m.mu.
func (l *courtesy) blame(m *Manager, c *Client) {
	switch _, known := l.clients[c]; {
	case known:
	case !m.courteous(c):
		l.firm = true
	case !l.firm:
		if l.clients == nil {
			l.clients = make(map[*Client]struct{})
		}
		l.clients[c] = struct{}{}
	}
}

// WouldWait is the status of a request with Try that would have to wait. It would wait for the
// disk, to evict clients whose leases ran out and that conflict with it, or for the file system, to
// give up local claims. The request has granted and released nothing; a LOCK that wants to wait is
// queued already.
const WouldWait Status = -1

// settled calls f with m.mu held. If the only clients that conflict with the request are clients
// whose leases ran out, settled evicts them and calls f again. It runs the leftovers of f after it
// has released the mutex. With try it evicts no client, and returns false if it would have to.
func (m *Manager) settled(try bool, f func(l *leftovers, late *courtesy)) bool {
	for {
		var l leftovers
		var late courtesy
		m.mu.Lock()
		f(&l, &late)
		m.mu.Unlock()
		m.finish(&l)
		switch {
		case late.none():
			return true
		case try:
			return false
		case !m.expel(late.clients):
			return true
		}
	}
}

// none reports whether evictions would not help: there is no conflict, or a client with a valid
// lease conflicts.
func (l *courtesy) none() bool { return l.firm || len(l.clients) == 0 }

// courteous reports whether the lease of c ran out. The server then keeps its state only until
// another client wants it. The caller holds m.mu.
func (m *Manager) courteous(c *Client) bool { return m.expired(c, m.now()) }

// expel evicts clients whose leases ran out. It returns false if one of them stays.
func (m *Manager) expel(clients map[*Client]struct{}) bool {
	return m.evict(slices.Collect(maps.Keys(clients)), Wanted) == nil
}

// MayHold reports whether the Manager may grant c an open with this deny mode, or a lock, now.
// claimed is true if c reclaims state from before the restart. The status is NFS4_OK,
// NFS4ERR_GRACE, NFS4ERR_NO_GRACE, NFS4ERR_RECLAIM_BAD or NFS4ERR_DELAY. first is true if the
// caller has to call Record before the grant.
func (m *Manager) MayHold(c *Client, deny Access, claimed bool) (s Status, first bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mayHold(c, deny, claimed), !m.isRecorded(c, deny, claimed)
}

// isRecorded reports whether c may get an open with this deny mode without a further write of its
// record. A client of minor version 0 sends no RECLAIM_COMPLETE, at which the Manager would record
// it, so the Manager records it before it first reclaims something. A client of a later version may
// have lost its record because its lease ran out. The caller holds m.mu.
func (m *Manager) isRecorded(c *Client, deny Access, claimed bool) bool {
	return m.cfg.Records == nil || c.known.reclaim.covers(heldBy(deny)) || claimed && c.Minor > 0
}
