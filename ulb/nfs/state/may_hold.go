package state

// MayHold returns Granted if the Manager may grant c an open with this deny mode (KindOpen), or a lock (KindLock), now, or
// else the verdict to answer: see mayHold. first is true if the caller has to call Record before the grant.
func (m *Manager) MayHold(c *Client, kind Kind, deny Access, claimed bool) (s Verdict, first bool) {
	g := m.acquire()
	defer g.release()
	return g.mayHold(c, kind, deny, claimed), !g.isRecorded(c, kind, deny, claimed)
}

// mayHold is MayHold under the mutex. claimed is true if c reclaims state from before the restart. The
// verdicts are MayNotReclaim if c may not reclaim, NeverHeld if c held no such state,
// InGracePeriod if c may not get new state yet, and TryLater if the records of clients with revoked
// state are not on stable storage yet.
func (g *guard) mayHold(c *Client, kind Kind, deny Access, claimed bool) Verdict {
	switch {
	case claimed && !g.mayReclaim(c):
		return MayNotReclaim
	case claimed && grounds(kind, deny)&g.claimOf(c).barred != 0:
		return MayNotReclaim
	case claimed && heldBy(kind, deny)&^g.claimOf(c).held != 0:
		// The record does not list this kind of state, so others may have got what conflicts with it since the restart.
		return NeverHeld
	case claimed:
		g.grace.claimed = g.now()
		return Granted
	case g.InGrace() && !g.goesOn(kind, deny), c.completes() && !c.known.reclaim.complete:
		return InGracePeriod
	case g.withheld:
		return TryLater
	}
	return Granted
}

// GoesOn reports whether clients that have nothing to reclaim may get state of this kind now: see goesOn.
func (m *Manager) GoesOn(kind Kind, deny Access) bool {
	if !m.InGrace() {
		return true
	}
	g := m.acquire()
	defer g.release()
	return g.goesOn(kind, deny)
}

// goesOn reports whether new state of this kind is granted in the grace period, because no client can reclaim what
// conflicts with it (RFC 8881 §8.4.2.1, RFC 7530 §9.6.2): a lock conflicts only with locks, and an open without a deny mode
// only with deny modes. A record says which kinds a client held, but not in which file systems.
func (g *guard) goesOn(kind Kind, deny Access) bool {
	other := HeldOpens
	switch {
	case kind == KindLock:
		other = HeldLocks
	case deny == 0:
		other = HeldDenials
	}
	return g.grace.expected[other] == 0
}

// isRecorded reports whether c may get an open with this deny mode, or a lock, before the Manager writes the
// record of c again. If a client of minor version 1 or later reclaims it, its record from before
// the restart covers it, and the Manager renews the record at RECLAIM_COMPLETE. A client of minor
// version 0 sends no RECLAIM_COMPLETE, so its record is renewed before its first reclaim.
func (g *guard) isRecorded(c *Client, kind Kind, deny Access, claimed bool) bool {
	return g.cfg.Records == nil || c.known.reclaim.covers(heldBy(kind, deny)) || claimed && c.completes()
}

// covers reports whether the client's record on stable storage lists these kinds of state. A record that still
// has the flag Revoked, although the client has acknowledged the revocation since, covers nothing new.
func (k *reclaim) covers(held Held) bool {
	return k.stored != nil && held&^k.stored.Held == 0 && (k.revoked || !k.stored.Revoked)
}

// mayBegin returns Granted if the Manager may grant c state, or else the verdict to answer. A client
// that is being evicted gets no state, because the eviction is about to end all its state.
func (g *guard) mayBegin(c *Client) Verdict {
	switch {
	case c.known.gone:
		return Gone
	case c.Dying():
		return TryLater // the eviction may still fail
	}
	return Granted
}
