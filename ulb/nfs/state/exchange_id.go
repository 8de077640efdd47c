package state

import "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"

// Exchange is the result of an EXCHANGE_ID.
type Exchange struct {
	// Client is the client of the request, if Status is NFS4_OK.
	Client *Client
	// Confirmed is true if the client had already confirmed itself.
	Confirmed bool
	Status    Status
	// Expired, if not nil, is the client that keeps the request from succeeding. Its lease ran out,
	// or the Manager is evicting it already. The caller calls Evict for it, then repeats the
	// request.
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
	case old.Verifier == id.Verifier: // case 2: the same client again
		// The client did not restart after all: remove the unconfirmed newer incarnation.
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
	// Cases 1, 4 and 5 of RFC 8881 §18.35.4. In case 5 the Manager removes the state of the old
	// incarnation when the new one confirms itself.
	c, after := m.add(1, id)
	return Exchange{Client: c}, after
}

// update does cases 6 to 9 of RFC 8881 §18.35.4: the request has EXCHGID4_FLAG_UPD_CONFIRMED_REC_A.
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

// Replaces reports whether the confirmation of c would remove an earlier incarnation that holds
// state. The confirmation then closes files.
func (m *Manager) Replaces(c *Client) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	in := m.clients.byName[c.name()]
	return in != nil && in.unconfirmed == c && in.confirmed != nil && m.holds(in.confirmed)
}

// Confirm confirms a client of minor version 1 or later, at its first CREATE_SESSION (RFC 8881
// §18.36.4), and removes all state of its earlier incarnation. It returns NFS4ERR_STALE_CLIENTID if
// the client no longer exists, and NFS4ERR_DELAY if the client has to try again later: see confirm.
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
