package state

import "time"

// waitingOwners are open-owners of minor version 0 that have something open and were not
// confirmed yet, with when they opened it last, as Manager.now has it.
type waitingOwners map[*Owner]time.Duration

// awaits notes that o has to confirm what it has just opened. It is called with m.mu held.
func (m *Manager) awaits(o *Owner) {
	if m.files.unconfirmed == nil {
		m.files.unconfirmed = make(waitingOwners)
	}
	m.files.unconfirmed[o] = m.now()
}

// abandon ends what o has opened and not confirmed: an OPEN that comes again opens it again.
// It is called with m.mu held.
func (m *Manager) abandon(o *Owner, l *leftovers) {
	o.turn.last = nil
	delete(m.files.unconfirmed, o)
	for _, s := range o.states {
		m.drop(s, l)
	}
}

// Abandon ends what an open-owner has opened and not confirmed, and will not confirm
// (RFC 7530 §16.18.4).
func (m *Manager) Abandon(o *Owner) {
	var l leftovers
	m.mu.Lock()
	if !o.Locks && !o.Confirmed() {
		m.abandon(o, &l)
	}
	m.mu.Unlock()
	m.finish(&l)
}

// sweepUnconfirmed ends what was opened and not confirmed within a lease
// (RFC 7530 §16.18.5): it keeps others from the file, and its owner may never have got
// the answer.
func (m *Manager) sweepUnconfirmed() {
	var l leftovers
	m.mu.Lock()
	now := m.now()
	for o, since := range m.files.unconfirmed {
		if now-since > m.cfg.Lease && !o.turn.busy {
			m.abandon(o, &l)
			m.forgetOwner(o)
		}
	}
	m.mu.Unlock()
	m.finish(&l)
}
