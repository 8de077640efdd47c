package state

import (
	"crypto/rand"
	"net/netip"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// A Callback is the address and the program number at which a client of minor version 0 wants
// callbacks.
type Callback struct {
	Program, Ident uint32
	// NetID and Address are the universal address (RFC 5665) as the client wrote it.
	NetID, Address string
	// Dial is the address to connect to. The zero value means that the server makes no callbacks
	// to this client.
	Dial netip.AddrPort
}

// setClientID is the data of clients of minor version 0 only. confirm is the verifier with which
// SETCLIENTID_CONFIRM confirms the client, and callback is the callback that the server uses.
type setClientID struct {
	confirm  nfs4wire.Verifier4
	callback Callback
	// updating is true if the client has sent a new callback, updatedCallback, and has not yet
	// confirmed it by the verifier updateConfirm.
	updating        bool
	updateConfirm   nfs4wire.Verifier4
	updatedCallback Callback
}

// SetClientIDResult is the result of SETCLIENTID.
type SetClientIDResult struct {
	// Client and Confirm are valid if Status is NFS4_OK.
	Client  *Client
	Confirm nfs4wire.Verifier4
	Status  Status
	// InUse is the callback of the client that uses the name, for NFS4ERR_CLID_INUSE.
	InUse Callback
	// Expired, if not nil, is the client that keeps the request from succeeding. Its lease ran out,
	// or the Manager is evicting it already. The caller calls Evict for it, then repeats the
	// request.
	Expired *Client
}

// SetClientID finds or makes the client of a SETCLIENTID (RFC 7530 §16.33.5).
func (m *Manager) SetClientID(id *Identity, cb Callback) SetClientIDResult {
	m.mu.Lock()
	r, after := m.setClientID(id, cb)
	m.mu.Unlock()
	after()
	return r
}

func (m *Manager) setClientID(id *Identity, cb Callback) (r SetClientIDResult, after func()) {
	after = func() {}
	in := m.clients.byName[name{0, string(id.Owner)}]
	var old *Client
	if in != nil {
		old = in.confirmed
	}
	switch {
	case old == nil && m.keeps(0, id):
		return SetClientIDResult{Status: nfs4wire.NFS4ErrDelay}, after
	case old == nil:
	case old.known.dying.Load():
		return SetClientIDResult{Expired: old}, after
	case old.Principal != id.Principal:
		if m.holds(old) || m.claimOf(old) != nil {
			if m.expired(old, m.now()) {
				return SetClientIDResult{Expired: old}, after
			}
			return SetClientIDResult{Status: nfs4wire.NFS4ErrClIDInUse, InUse: old.known.v40.callback}, m.inUseBy(old, id)
		}
		after = m.remove(old)
		m.forget(old)
	case old.Verifier == id.Verifier:
		if in.unconfirmed != nil {
			after = m.remove(in.unconfirmed)
		}
		old.meet(id.Address)
		v := &old.known.v40
		v.updating, v.updateConfirm, v.updatedCallback = true, newConfirm(), cb
		return SetClientIDResult{Client: old, Confirm: v.updateConfirm}, after
	}
	if old != nil && !old.known.gone && m.contested(old, id.Proven, id.Address) {
		if m.expired(old, m.now()) {
			return SetClientIDResult{Expired: old}, after
		}
		return SetClientIDResult{Status: nfs4wire.NFS4ErrDelay}, m.inUseBy(old, id)
	}
	c, more := m.add(0, id)
	c.known.v40 = setClientID{confirm: newConfirm(), callback: cb}
	gone := after
	return SetClientIDResult{Client: c, Confirm: c.known.v40.confirm}, func() { gone(); more() }
}

// newConfirm returns a random verifier, which cannot be guessed.
func newConfirm() (v nfs4wire.Verifier4) {
	rand.Read(v[:])
	return v
}

// ConfirmClientID is SETCLIENTID_CONFIRM (RFC 7530 §16.34.5). If it confirms a new incarnation of a
// client, it removes the old incarnation with all its state. It returns NFS4ERR_STALE_CLIENTID if
// no client has this ID and this verifier, NFS4ERR_CLID_INUSE if the principal is not the client's,
// and NFS4ERR_DELAY if the client has to try again later: see confirm.
func (m *Manager) ConfirmClientID(id uint64, confirm nfs4wire.Verifier4, principal string) Status {
	m.mu.Lock()
	s, after := m.confirmClientID(id, confirm, principal)
	m.mu.Unlock()
	after()
	return s
}

func (m *Manager) confirmClientID(id uint64, confirm nfs4wire.Verifier4, principal string) (s Status, after func()) {
	nothing := func() {}
	c := m.clients.byID[id]
	if c == nil || c.Minor != 0 || c.known.dying.Load() {
		return nfs4wire.NFS4ErrStaleClientID, nothing
	}
	v := &c.known.v40
	update := c.known.confirmed && v.updating && confirm == v.updateConfirm
	switch {
	case !update && confirm != v.confirm:
		return nfs4wire.NFS4ErrStaleClientID, nothing
	case c.Principal != principal:
		return nfs4wire.NFS4ErrClIDInUse, nothing
	case update:
		v.confirm, v.callback, v.updating = v.updateConfirm, v.updatedCallback, false
		return nfs4wire.NFS4OK, nothing
	case c.known.confirmed: // a repeated request: the client did not get the answer
		return nfs4wire.NFS4OK, nothing
	}
	after, s = m.confirm(c)
	return s, after
}

// CallbackOf returns the callback of a client of minor version 0.
func (m *Manager) CallbackOf(c *Client) Callback {
	m.mu.Lock()
	defer m.mu.Unlock()
	return c.known.v40.callback
}
