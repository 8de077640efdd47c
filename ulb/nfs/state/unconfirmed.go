package state

import "time"

// waitingOwners maps each unconfirmed open-owner of minor version 0 that has opens to the time of
// its last OPEN, on the clock of Manager.now.
type waitingOwners map[*Owner]time.Duration

// awaits stores that o, an unconfirmed owner, has just opened a file. The caller holds m.mu.
func (m *Manager) awaits(o *Owner) {
	if m.files.unconfirmed == nil {
		m.files.unconfirmed = make(waitingOwners)
	}
	m.files.unconfirmed[o] = m.now()
}

// abandon ends the opens of o, an unconfirmed open-owner, and forgets its last reply. If the client
// repeats its OPEN, the Manager therefore opens the file again. The caller holds m.mu.
func (m *Manager) abandon(o *Owner, l *leftovers) {
	o.turn.last = nil
	delete(m.files.unconfirmed, o)
	for _, s := range o.states {
		m.drop(s, l)
	}
}

// Abandon ends the unconfirmed opens of an open-owner that will not be confirmed (RFC 7530
// §16.18.4).
func (m *Manager) Abandon(o *Owner) {
	var l leftovers
	m.mu.Lock()
	if !o.Locks && !o.Confirmed() {
		m.abandon(o, &l)
	}
	m.mu.Unlock()
	m.finish(&l)
}

// sweepUnconfirmed ends opens that were not confirmed within a lease (RFC 7530 §16.18.5), because
// they may deny the file to other owners, although the client may never have got the answer.
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
