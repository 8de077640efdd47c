package state

// The protocol that numbers the requests of an owner keeps the numbers and the replies with the owner (Owner.Kept). This
// package only knows that the owner works on a request, and how often its opens were abandoned.

// Kept returns what the protocol keeps with the owner. The first call makes it. It ends with the owner.
func (o *Owner) Kept(make func() any) any {
	o.once.Do(func() { o.kept = make() })
	return o.kept
}

// Works says whether a request of the owner is executed from now on. The Manager forgets no owner that works.
func (o *Owner) Works(on bool) { o.working.Store(on) }

// Abandoned returns how often the opens of an open-owner were ended because it was not confirmed. A reply that is older
// tells of an open that is gone.
func (o *Owner) Abandoned() uint32 { return o.abandoned.Load() }

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
		return nil, g.full(c)
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

// HoldsRanges reports whether the lock-owner o has locked any range.
func (m *Manager) HoldsRanges(o *Owner) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return o.locksRanges()
}

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
	o.abandoned.Add(1)
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
		if now-since > g.cfg.Lease && !o.working.Load() {
			g.abandon(o)
			g.forgetOwner(o)
		}
	}
}
