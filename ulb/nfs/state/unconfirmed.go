package state

import "time"

// waitingOwners maps each unconfirmed open-owner of minor version 0 that has opens to the time of
// its last OPEN, on the clock of Manager.now.
type waitingOwners map[*Owner]time.Duration

// awaits stores that o, an unconfirmed owner, has just opened a file.
func (g *guard) awaits(o *Owner) {
	if g.files.unconfirmed == nil {
		g.files.unconfirmed = make(waitingOwners)
	}
	g.files.unconfirmed[o] = g.now()
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
	if !o.Locks && !o.Confirmed() {
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
