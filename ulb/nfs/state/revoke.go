package state

import (
	"iter"
	"maps"
	"slices"
)

// Revoke takes away all opens and locks in the file systems with this domain (see DomainOf), which the
// caller is about to close and no call uses any more. Requests with the stateids get
// NFS4ERR_ADMIN_REVOKED until their clients free them (in minor version 0: see told), and SEQUENCE reports that there are such
// stateids (RFC 8881 §8.5, §18.46.3).
//
// Revoke waits for the file systems to give up claims. It waits for the disk: it first writes into the records of these clients that they may reclaim
// nothing after a restart, because other clients may have got conflicting state meanwhile (RFC 8881
// §8.4.3). If the write fails, the Manager grants no new state until a later write succeeds. After
// Close, Revoke does not mark the records: the clients reclaim their state from the next server.
func (m *Manager) Revoke(domain any) {
	m.revoke(m.allClients(), func(s *State) bool { return s.Key.Domain == domain })
	m.giving.wait(domain)
}

// RevokeExport is Revoke for those opens in the file systems with this domain that came by one export
// (State.Export). That export has ended, and no call uses it any more; the clients can no longer give up
// what they hold by it, although another export may show the same files.
func (m *Manager) RevokeExport(domain any, export uint32) {
	m.revoke(m.allClients(), func(s *State) bool { return s.Key.Domain == domain && s.Export == export })
}

// revoke revokes those opens of the clients, with the locks made through them.
func (m *Manager) revoke(clients []*Client, those func(*State) bool) {
	select {
	case <-m.sweeper.stop:
	default:
		m.mark(clients, those)
	}
	m.eachClient(clients, func(g *guard, c *Client) {
		for s := range c.opensOf(those) {
			for _, lock := range s.locks {
				lock.revoked.Store(true)
			}
			s.revoked.Store(true)
			g.drop(s)
		}
	})
}

// mark sets Record.Revoked in the record of each of the clients that has such opens.
func (m *Manager) mark(clients []*Client, those func(*State) bool) {
	m.eachClient(clients, func(g *guard, c *Client) {
		k := &c.known.reclaim
		if k.revoked {
			return
		}
		for range c.opensOf(those) {
			k.revoked = true
			m.marked = append(m.marked, c)
			if r := g.claimOf(c); r != nil {
				r.Revoked = true // so that the next incarnation writes a record of its own
			}
			break
		}
	})
	m.rewrite()
}

// allClients returns all clients that there are now.
func (m *Manager) allClients() []*Client {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Values(m.clients.byID))
}

// eachClient calls f for each of the clients. It releases the Manager's mutex between two clients, so that
// requests go on meanwhile. It skips clients that have gone. The work that g collects is done at the end,
// without the mutex.
func (m *Manager) eachClient(all []*Client, f func(g *guard, c *Client)) {
	g := &guard{Manager: m}
	for _, c := range all {
		m.mu.Lock()
		if !c.known.gone {
			f(g, c)
		}
		m.mu.Unlock()
	}
	g.finish()
}

// opensOf iterates over those opens of c. The loop may drop the open.
func (c *Client) opensOf(those func(*State) bool) iter.Seq[*State] {
	return func(yield func(*State) bool) {
		for s := range c.holding.states {
			if s.Kind == KindOpen && those(s) && !yield(s) {
				return
			}
		}
	}
}

// acknowledge forgets a revoked stateid, because its client has freed it. When a client has freed all
// of them, it may reclaim state again after a restart.
func (g *guard) acknowledge(s *State) {
	g.files.slab.remove(s)
	g.acknowledged(s)
}

// told acknowledges a revoked open of minor version 0, which has no FREE_STATEID, and the locks made through it,
// when the client sends CLOSE and gets NFS4ERR_ADMIN_REVOKED. Even if it does not get this answer before a
// restart, it does not claim a file that it has closed. The stateid stays known as that of another closed
// open does (outlive), because the client may repeat the CLOSE.
func (g *guard) told(id *StateID, c *Client) {
	s, verdict := g.named(id, c)
	if verdict != Granted || s.Kind != KindOpen || s.Client.Kind != Minor0 || !s.revoked.Load() {
		return
	}
	for other := range s.Client.holding.revoked {
		switch {
		case other == s && s.Owner.known:
			g.outlive(s.Owner, s)
			g.acknowledged(s)
		case other == s, other.open == s:
			g.acknowledge(other)
		}
	}
}

// acknowledged is acknowledge for a stateid that stays known.
func (g *guard) acknowledged(s *State) {
	c := s.Client
	g.charge(c, -sizeRevoked)
	if delete(c.holding.revoked, s); len(c.holding.revoked) == 0 {
		c.known.hasRevoked.Store(false)
		c.known.reclaim.revoked = false
		g.marked = append(g.marked, c)
		g.wake()
	}
}
