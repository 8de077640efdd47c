package state

import (
	"crypto/rand"
	"net/netip"

	"github.com/nfsrdmad/nfsrdmad/internal/clientaddr"
)

// A Registration is the result of an EXCHANGE_ID or a SETCLIENTID.
type Registration struct {
	// Client is the client of the request, if Verdict is Granted.
	Client *Client
	// Confirmed is true if the client had already confirmed itself.
	Confirmed bool
	Verdict   Verdict
	// Expired, if not nil, is a client that is in the way, whose lease ran out or that is being evicted.
	// The caller calls Evict for it, then repeats the request.
	Expired *Client
	// Only SETCLIENTID uses the fields below. Confirm is the verifier for SETCLIENTID_CONFIRM.
	// InUse is the callback of the client that uses the name, for NameTaken.
	Confirm Verifier
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
	return g.register(Sessions, id)
}

// register finds or makes the client of a request: cases 1 to 5 of RFC 8881 §18.35.4. SETCLIENTID
// in minor version 0 has the same cases (RFC 7530 §16.33.5).
func (g *guard) register(kind ClientKind, id *Identity) Registration {
	in := g.clients.byName[id.name(kind)]
	old := in.confirmed
	if same := g.sameAs(kind, id); same != nil && (old == nil || old.Verifier != id.Verifier) {
		old = same
		in.unconfirmed = g.clients.byName[old.name()].unconfirmed
		g.alias(id.name(kind), old)
	} else if old == nil {
		old = g.aliased(id.name(kind), id.Principal)
	}
	switch {
	case old == nil && g.keeps(kind, id):
		return Registration{Verdict: TryLater}
	case old == nil: // cases 1 and 4
	case old.known.dying.Load():
		return Registration{Expired: old}
	case !id.of(old): // case 3
		if g.atWork(old) {
			return g.refuse(id, old, NameTaken)
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
	return Registration{Client: g.add(kind, id)}
}

// refuse returns the result of a request that claims the name of the client old: the verdict s, with the
// event NameInUse, or Registration.Expired if the lease of old ran out.
func (g *guard) refuse(id *Identity, old *Client, s Verdict) Registration {
	if g.expired(old, g.now()) {
		return Registration{Expired: old}
	}
	g.events = append(g.events, &Event{Kind: NameInUse, Clients: []Record{g.recordOf(old)}, By: clientaddr.Of(id.Address)})
	return Registration{Verdict: s, InUse: old.known.v40.callback}
}

// update does cases 6 to 9 of RFC 8881 §18.35.4: the request has EXCHGID4_FLAG_UPD_CONFIRMED_REC_A.
func (g *guard) update(id *Identity) Registration {
	old := g.sameAs(Sessions, id)
	if old != nil {
		g.alias(id.name(Sessions), old)
	} else if old = g.clients.byName[id.name(Sessions)].confirmed; old == nil {
		old = g.aliased(id.name(Sessions), id.Principal)
	}
	if old == nil { // a client that is proven does not change by what is not
		old = g.clients.byName[name{Sessions, string(id.Owner), prover{proven: true}}].confirmed
	}
	switch {
	case old == nil:
		return Registration{Verdict: NotFound}
	case old.Verifier != id.Verifier:
		return Registration{Verdict: OtherVerifier}
	case !id.of(old):
		return Registration{Verdict: OtherPrincipal}
	default:
		old.meet(id.source())
		return Registration{Client: old, Confirmed: true}
	}
}

// Confirm confirms a client of minor version 1 or later, at its first CREATE_SESSION (RFC 8881
// §18.36.4): see confirm. It returns NoClient if the client no longer exists.
func (m *Manager) Confirm(c *Client) Verdict { return m.confirmThis(c, nil) }

// confirmThis is Confirm. It calls between as a piecewise does.
func (m *Manager) confirmThis(c *Client, between func() bool) Verdict {
	p := m.inPieces(between)
	defer p.end()
	switch {
	case c.known.gone:
		return NoClient
	case c.known.confirmed:
		return Granted
	}
	return p.confirm(c)
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
	confirm  Verifier
	// update has the callback that the client sent later and has not confirmed yet, or is nil.
	update *setClientID
}

// SetClientID finds or makes the client of a SETCLIENTID (RFC 7530 §16.33.5).
func (m *Manager) SetClientID(id *Identity, cb Callback) Registration {
	g := m.acquire()
	defer g.release()
	r := g.register(Minor0, id)
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
// NoClient if no client has this ID and this verifier, and NameTaken if the
// principal is not the client's.
func (m *Manager) ConfirmClientID(id uint64, confirm Verifier, principal string) Verdict {
	p := m.inPieces(nil)
	defer p.end()
	c := p.clients.byID[id]
	if c == nil || c.Kind != Minor0 || c.known.dying.Load() {
		return NoClient
	}
	v := &c.known.v40
	update := c.known.confirmed && v.update != nil && confirm == v.update.confirm
	switch {
	case !update && confirm != v.confirm:
		return NoClient
	case c.Principal != principal:
		return NameTaken
	case update:
		c.known.v40 = *v.update
		return Granted
	case c.known.confirmed: // a repeated request: the client did not get the answer
		return Granted
	}
	return p.confirm(c)
}

// CallbackOf returns the callback of a client of minor version 0.
func (m *Manager) CallbackOf(c *Client) Callback {
	m.mu.Lock()
	defer m.mu.Unlock()
	return c.known.v40.callback
}
