package state

import (
	"crypto/rand"
	"net/netip"

	"github.com/nfsrdmad/nfsrdmad/internal/clientaddr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// A Registration is the result of an EXCHANGE_ID or a SETCLIENTID.
type Registration struct {
	// Client is the client of the request, if Status is NFS4_OK.
	Client *Client
	// Confirmed is true if the client had already confirmed itself.
	Confirmed bool
	Status    Status
	// Expired, if not nil, is a client that is in the way, whose lease ran out or that is being evicted.
	// The caller calls Evict for it, then repeats the request.
	Expired *Client
	// Only SETCLIENTID uses the fields below. Confirm is the verifier for SETCLIENTID_CONFIRM.
	// InUse is the callback of the client that uses the name, for NFS4ERR_CLID_INUSE.
	Confirm nfs4wire.Verifier4
	InUse   Callback
}

// ExchangeID finds or makes the client of an EXCHANGE_ID: the nine cases of
// RFC 8881 §18.35.4. update is EXCHGID4_FLAG_UPD_CONFIRMED_REC_A.
func (m *Manager) ExchangeID(id *Identity, update bool) Registration {
	g := m.acquire()
	defer g.release()
	if update {
		return g.update(id)
	}
	return g.register(1, id)
}

// register finds or makes the client of a request: cases 1 to 5 of RFC 8881 §18.35.4. SETCLIENTID
// in minor version 0 has the same cases (RFC 7530 §16.33.5).
func (g *guard) register(minor uint32, id *Identity) Registration {
	in := g.clients.byName[id.name(minor)]
	old := in.confirmed
	if same := g.sameAs(minor, id); same != nil && (old == nil || old.Verifier != id.Verifier) {
		old = same
		in.unconfirmed = g.clients.byName[old.name()].unconfirmed
		g.alias(id.name(minor), old)
	} else if old == nil {
		old = g.aliased(id.name(minor), id.Principal)
	}
	switch {
	case old == nil && g.keeps(minor, id):
		return Registration{Status: nfs4wire.NFS4ErrDelay}
	case old == nil: // cases 1 and 4
	case old.known.dying.Load():
		return Registration{Expired: old}
	case !id.of(old): // case 3
		if g.atWork(old) {
			return g.refuse(id, old, nfs4wire.NFS4ErrClIDInUse)
		}
		g.remove(old)
		g.forget(old)
	case old.Verifier == id.Verifier: // case 2: the same client again
		if in.unconfirmed != nil { // the client did not restart after all
			g.remove(in.unconfirmed)
		}
		old.meet(id.source())
		return Registration{Client: old, Confirmed: true}
	}
	// In case 5 the old incarnation loses its state when the new one confirms itself.
	return Registration{Client: g.add(minor, id)}
}

// refuse returns the result of a request that claims the name of the client old: the status s, with the
// event NameInUse, or Registration.Expired if the lease of old ran out.
func (g *guard) refuse(id *Identity, old *Client, s Status) Registration {
	if g.expired(old, g.now()) {
		return Registration{Expired: old}
	}
	g.events = append(g.events, &Event{Kind: NameInUse, Clients: []Record{g.recordOf(old)}, By: clientaddr.Of(id.Address)})
	return Registration{Status: s, InUse: old.known.v40.callback}
}

// update does cases 6 to 9 of RFC 8881 §18.35.4: the request has EXCHGID4_FLAG_UPD_CONFIRMED_REC_A.
func (g *guard) update(id *Identity) Registration {
	old := g.sameAs(1, id)
	if old != nil {
		g.alias(id.name(1), old)
	} else if old = g.clients.byName[id.name(1)].confirmed; old == nil {
		old = g.aliased(id.name(1), id.Principal)
	}
	if old == nil { // a client that is proven does not change by what is not
		old = g.clients.byName[name{1, string(id.Owner), prover{proven: true}}].confirmed
	}
	switch {
	case old == nil:
		return Registration{Status: nfs4wire.NFS4ErrNoEnt}
	case old.Verifier != id.Verifier:
		return Registration{Status: nfs4wire.NFS4ErrNotSame}
	case !id.of(old):
		return Registration{Status: nfs4wire.NFS4ErrPerm}
	default:
		old.meet(id.source())
		return Registration{Client: old, Confirmed: true}
	}
}

// Confirm confirms a client of minor version 1 or later, at its first CREATE_SESSION (RFC 8881
// §18.36.4): see confirm. It returns NFS4ERR_STALE_CLIENTID if the client no longer exists.
func (m *Manager) Confirm(c *Client) Status {
	g := m.acquire()
	defer g.release()
	switch {
	case c.known.gone:
		return nfs4wire.NFS4ErrStaleClientID
	case c.known.confirmed:
		return nfs4wire.NFS4OK
	}
	return g.confirm(c)
}

// A Callback is the address for callbacks to a client of minor version 0.
type Callback struct {
	Program uint32
	// NetID and Address are the universal address (RFC 5665) as the client wrote it.
	NetID, Address string
	// Dial is the address to connect to. If it is zero, the server does not call this client back.
	Dial netip.AddrPort
}

// setClientID is the data of a client of minor version 0 only.
type setClientID struct {
	// callback is the callback that the server uses, and confirm the verifier that confirms it, and at
	// first the client too (SETCLIENTID_CONFIRM).
	callback Callback
	confirm  nfs4wire.Verifier4
	// update has the callback that the client sent later and has not confirmed yet, or is nil.
	update *setClientID
}

// SetClientID finds or makes the client of a SETCLIENTID (RFC 7530 §16.33.5).
func (m *Manager) SetClientID(id *Identity, cb Callback) Registration {
	g := m.acquire()
	defer g.release()
	r := g.register(0, id)
	if r.Client == nil {
		return r
	}
	rand.Read(r.Confirm[:]) // so that no other client can guess it
	sent := setClientID{callback: cb, confirm: r.Confirm}
	if r.Confirmed {
		r.Client.known.v40.update = &sent
	} else {
		r.Client.known.v40 = sent
	}
	return r
}

// ConfirmClientID is SETCLIENTID_CONFIRM (RFC 7530 §16.34.5): see confirm. It returns
// NFS4ERR_STALE_CLIENTID if no client has this ID and this verifier, and NFS4ERR_CLID_INUSE if the
// principal is not the client's.
func (m *Manager) ConfirmClientID(id uint64, confirm nfs4wire.Verifier4, principal string) Status {
	g := m.acquire()
	defer g.release()
	c := g.clients.byID[id]
	if c == nil || c.Minor != 0 || c.known.dying.Load() {
		return nfs4wire.NFS4ErrStaleClientID
	}
	v := &c.known.v40
	update := c.known.confirmed && v.update != nil && confirm == v.update.confirm
	switch {
	case !update && confirm != v.confirm:
		return nfs4wire.NFS4ErrStaleClientID
	case c.Principal != principal:
		return nfs4wire.NFS4ErrClIDInUse
	case update:
		c.known.v40 = *v.update
		return nfs4wire.NFS4OK
	case c.known.confirmed: // a repeated request: the client did not get the answer
		return nfs4wire.NFS4OK
	}
	return g.confirm(c)
}

// CallbackOf returns the callback of a client of minor version 0.
func (m *Manager) CallbackOf(c *Client) Callback {
	m.mu.Lock()
	defer m.mu.Unlock()
	return c.known.v40.callback
}
