package state

import (
	"iter"
	"maps"
	"slices"
)

// A taking is a Release or Revoke under way, with the clients from which it takes state. From before the first open is
// taken to after the last one, the records of these clients have to say so, even if a client frees meanwhile all
// that was taken so far, or closes what was about to be taken.
type taking map[*Client]struct{}

// begin adds c. The caller calls rewrite before it takes state.
func (t taking) begin(g *guard, c *Client) {
	if _, begun := t[c]; begun {
		return
	}
	t[c] = struct{}{}
	k := &c.known.reclaim
	if k.takings++; k.revoked {
		return
	}
	k.revoked = true
	g.marked = append(g.marked, c)
	if r := g.claimOf(c); r != nil {
		r.Revoked = true // so that the next incarnation writes a record of its own
	}
}

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
	k.revoked = false
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
	m.revoke(m.AllClients(), func(s *State) bool { return s.Key.Domain == domain })
	m.giving.wait(domain)
}

// RevokeExport is Revoke for those opens in the file systems with this domain that came by one export
// (State.Export). That export has ended, and no call uses it any more; the clients can no longer give up
// what they hold by it, although another export may show the same files.
func (m *Manager) RevokeExport(domain any, export uint32) {
	m.revoke(m.AllClients(), func(s *State) bool { return s.Key.Domain == domain && s.Export == export })
}

// revoke revokes those opens of the clients, with the locks made through them.
func (m *Manager) revoke(clients []*Client, those func(*State) bool) {
	t := make(taking)
	select {
	case <-m.sweeper.stop:
	default:
		m.eachClient(clients, func(g *guard, c *Client) {
			for range c.opensOf(those) {
				t.begin(g, c)
				break
			}
		})
		m.rewrite()
	}
	m.eachClient(clients, func(g *guard, c *Client) {
		for s := range c.opensOf(those) {
			g.takeOpen(s)
		}
	})
	t.end(m)
}

// takeOpen revokes an open and all locks made through it. steps is how many stateids, ranges and waiters it looked at.
func (g *guard) takeOpen(s *State) (steps int) {
	steps = 1 + len(s.file.waiting)
	for _, lock := range s.locks {
		lock.revoked.Store(true)
		steps += 1 + len(lock.held.Ranges())
	}
	s.revoked.Store(true)
	g.drop(s)
	return steps
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
// of them, it may reclaim state again after a restart (pardon).
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
		g.pardon(c)
	}
}
