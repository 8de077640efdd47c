package state

import (
	"maps"
	"slices"
)

// courtesy are the clients that stand in the way of a request.
type courtesy struct {
	// firm: one of them has a lease.
	firm    bool
	clients map[*Client]struct{}
}

// blame notes that something of c stands in the way. It is called with m.mu held.
func (l *courtesy) blame(m *Manager, c *Client) {
	switch {
	case !m.courteous(c):
		l.firm = true
	case !l.firm:
		if l.clients == nil {
			l.clients = make(map[*Client]struct{})
		}
		l.clients[c] = struct{}{}
	}
}

// WouldWait is the status of a request with Try that clients without a lease stand in the
// way of: to send them away waits for the disk. The request has done nothing.
const WouldWait Status = -1

// settled calls f with m.mu held, and once more whenever only clients without a lease
// stood in the way, and were sent away. What f leaves over is done without the mutex.
// With try no client is sent away, and settled is false where one would have been.
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

// none says that there is no use in sending clients away.
func (l *courtesy) none() bool { return l.firm || len(l.clients) == 0 }

// courteous says that the lease of c ran out: what it holds goes as soon as another
// client wants it. It is called with m.mu held.
func (m *Manager) courteous(c *Client) bool { return m.expired(c, m.now()) }

// expel evicts clients whose leases ran out. It is false where one of them stays.
func (m *Manager) expel(clients map[*Client]struct{}) bool {
	return m.evict(slices.Collect(maps.Keys(clients)), Wanted) == nil
}

// MayHold says whether c may be granted something at the moment: what it held before the
// restart, where claimed is set, or something new: NFS4_OK, NFS4ERR_GRACE or
// NFS4ERR_NO_GRACE. first: Record is to be called before.
func (m *Manager) MayHold(c *Client, claimed bool) (s Status, first bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mayHold(c, claimed), !m.isRecorded(c, claimed)
}

// isRecorded says whether a client that holds something, or claims it, is recorded. One of minor
// version 0 has no RECLAIM_COMPLETE, which would record it when it has claimed all; and one of a
// later version whose lease ran out may have lost its record since. It is called with m.mu held.
func (m *Manager) isRecorded(c *Client, claimed bool) bool {
	return m.cfg.Records == nil || c.known.reclaim.recorded || claimed && c.Minor > 0
}
