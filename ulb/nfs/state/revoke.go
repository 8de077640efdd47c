package state

import (
	"maps"
	"slices"
)

// A taking is a Release or Revoke under way, with the clients from which it takes state, and the kinds of that state. From
// before it takes the first open to after the last one, the records of these clients have to say so, even if a client frees
// meanwhile all that was taken so far, or closes what was about to be taken.
type taking map[*Client]Held

// begin adds the open s, which is to be taken. The caller calls rewrite before it takes state.
func (t taking) begin(g *guard, s *State) {
	c, lost := s.Client, s.lostWith()
	k := &c.known.reclaim
	if t[c] == 0 {
		k.takings++
	}
	if t[c] |= lost; k.revoked && lost&^k.lost == 0 {
		return
	}
	k.revoked, k.lost = true, k.lost|lost
	g.marked = append(g.marked, c)
	if r := g.claimOf(c); r != nil {
		r.Revoked, r.Kept = true, k.kept() // so that the next incarnation writes a record of its own
	}
}

// has reports whether the records say that s is taken.
func (t taking) has(s *State) bool { return s.lostWith()&^t[s.Client] == 0 }

// end lets the clients reclaim state again that have freed all that was taken, or lost nothing.
func (t taking) end(m *Manager) {
	m.eachClient(slices.Collect(maps.Keys(t)), func(g *guard, c *Client) {
		c.known.reclaim.takings--
		g.pardon(c)
	})
}

// pardon lets c reclaim state after a restart if it knows of all that it has lost, and loses nothing now.
func (g *guard) pardon(c *Client) {
	k := &c.known.reclaim
	if !k.revoked || k.untold || k.takings > 0 || len(c.holding.revoked) > 0 {
		return
	}
	k.revoked, k.lost = false, 0
	g.marked = append(g.marked, c)
	g.wake()
}

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
	m.take(m.AllClients(), func(s *State) bool { return s.Key.Domain == domain }, nil)
	m.giving.wait(domain)
}

// RevokeExport is Revoke for those opens in the file systems with this domain that came by one export
// (State.Export). That export has ended, and no call uses it any more; the clients can no longer give up
// what they hold by it, although another export may show the same files.
func (m *Manager) RevokeExport(domain any, export uint32) {
	m.take(m.AllClients(), func(s *State) bool { return s.Key.Domain == domain && s.Export == export }, nil)
}

// take takes those opens away from the clients, with the locks made through them, and returns how many. After Close it
// marks no records.
func (m *Manager) take(clients []*Client, those func(*State) bool, between func() bool) (took int) {
	t, marks := make(taking), true
	select {
	case <-m.sweeper.stop:
		marks = false
	default:
		m.eachOpen(clients, those, nil, func(p *piecewise, s *State) { t.begin(p.guard, s) })
		m.rewrite()
	}
	m.eachOpen(clients, those, between, func(p *piecewise, s *State) {
		if t.has(s) || !marks {
			took++
			s.revoked.Store(true)
			p.endOpen(s)
		}
	})
	t.end(m)
	return took
}

// AllClients returns all clients that there are now, confirmed or not, in no particular order.
func (m *Manager) AllClients() []*Client {
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

// acknowledge forgets a revoked stateid, because its client has freed it. When a client has freed all
// of them, it may reclaim state again after a restart (pardon).
func (g *guard) acknowledge(s *State) {
	g.files.slab.remove(s)
	g.acknowledged(s)
}

// told acknowledges a revoked open of minor version 0, which has no FREE_STATEID, and the locks made through it,
// when the client sends CLOSE and gets NFS4ERR_ADMIN_REVOKED. Even if it does not get this answer before a
// restart, it does not claim a file that it has closed. The stateid stays known as that of another closed
// open does (outlive), because the client may repeat the CLOSE.
//
// told returns false if the server still ends the locks, so that the client has to repeat the CLOSE.
func (g *guard) told(id *StateID, c *Client) bool {
	s, verdict := g.named(id, c)
	if verdict != Granted || s.Kind != KindOpen || s.Client.Kind != Minor0 || !s.isRevoked() {
		return true
	}
	if s.file != nil {
		return false
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
	return true
}

// acknowledged is acknowledge for a stateid that stays known.
func (g *guard) acknowledged(s *State) {
	c := s.Client
	g.chargeRevoked(c, -1)
	if delete(c.holding.revoked, s); len(c.holding.revoked) == 0 {
		c.known.hasRevoked.Store(false)
		g.pardon(c)
	}
}
