package state

import "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"

// Exchange is what EXCHANGE_ID came to.
type Exchange struct {
	// Client is the one that the request is about, where Status is NFS4_OK.
	Client *Client
	// Confirmed: it is a client that has confirmed itself before.
	Confirmed bool
	Status    Status
	// Expired, where not nil, is a client whose lease ran out, and that stands in the
	// way: it is to be evicted, and the request repeated.
	Expired *Client
}

// ExchangeID finds or makes the client of an EXCHANGE_ID: the nine cases of
// RFC 8881 §18.35.4. update is EXCHGID4_FLAG_UPD_CONFIRMED_REC_A.
func (m *Manager) ExchangeID(id *Identity, update bool) Exchange {
	m.mu.Lock()
	x, after := m.exchange(id, update)
	m.mu.Unlock()
	after()
	return x
}

func (m *Manager) exchange(id *Identity, update bool) (x Exchange, after func()) {
	var old *Client
	if in := m.clients.byName[name{1, string(id.Owner)}]; in != nil {
		old = in.confirmed
	}
	nothing := func() {}
	if update {
		return m.update(id, old), nothing
	}
	switch {
	case old == nil && m.keeps(1, id):
		return Exchange{Status: nfs4wire.NFS4ErrDelay}, nothing
	case old == nil: // cases 1 and 4
	case old.known.dying.Load():
		return Exchange{Expired: old}, nothing
	case !id.of(old): // case 3
		if !m.yields(old, id) {
			if m.expired(old, m.now()) {
				return Exchange{Expired: old}, nothing
			}
			return Exchange{Status: nfs4wire.NFS4ErrClIDInUse}, m.inUseBy(old, id)
		}
		gone := m.remove(old)
		m.forget(old)
		c, more := m.add(1, id)
		return Exchange{Client: c}, func() { gone(); more() }
	case old.Verifier == id.Verifier: // case 2
		// An incarnation that would have followed this one is taken back.
		if in := m.clients.byName[old.name()]; in.unconfirmed != nil {
			nothing = m.remove(in.unconfirmed)
		}
		old.meet(id.Address)
		return Exchange{Client: old, Confirmed: true}, nothing
	case m.contested(old, id.Proven, id.Address):
		if m.expired(old, m.now()) {
			return Exchange{Expired: old}, nothing
		}
		return Exchange{Status: nfs4wire.NFS4ErrDelay}, m.inUseBy(old, id)
	}
	// Case 5 as well: what the old incarnation holds dies when the new one is
	// confirmed.
	c, after := m.add(1, id)
	return Exchange{Client: c}, after
}

// update is cases 6 to 9.
func (m *Manager) update(id *Identity, old *Client) Exchange {
	switch {
	case old == nil:
		return Exchange{Status: nfs4wire.NFS4ErrNoEnt}
	case old.Verifier != id.Verifier:
		return Exchange{Status: nfs4wire.NFS4ErrNotSame}
	case !id.of(old):
		return Exchange{Status: nfs4wire.NFS4ErrPerm}
	}
	old.meet(id.Address)
	return Exchange{Client: old, Confirmed: true}
}

// Replaces says that a client would take the place of an earlier incarnation of its own
// by its confirmation, which then closes the files of that one.
func (m *Manager) Replaces(c *Client) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	in := m.clients.byName[c.name()]
	return in != nil && in.unconfirmed == c && in.confirmed != nil && m.holds(in.confirmed)
}

// Confirm confirms a client of minor version 1 or later, as its first CREATE_SESSION does
// (RFC 8881 §18.36.4); what the incarnation before held dies. STALE_CLIENTID: the client
// is no more; DELAY: there are too many.
func (m *Manager) Confirm(c *Client) Status {
	m.mu.Lock()
	if c.known.gone {
		m.mu.Unlock()
		return nfs4wire.NFS4ErrStaleClientID
	}
	if c.known.confirmed {
		m.mu.Unlock()
		return nfs4wire.NFS4OK
	}
	after, s := m.confirm(c)
	m.mu.Unlock()
	after()
	return s
}
