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

// SetClientID finds or makes the client of a SETCLIENTID (RFC 7530 §16.33.5).
func (m *Manager) SetClientID(id *Identity, cb Callback) Registration {
	g := m.acquire()
	defer g.release()
	r := g.register(0, id)
	if r.Client == nil {
		return r
	}
	r.Confirm = newConfirm()
	if v := &r.Client.known.v40; r.Confirmed {
		v.updating, v.updateConfirm, v.updatedCallback = true, r.Confirm, cb
	} else {
		v.confirm, v.callback = r.Confirm, cb
	}
	return r
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
	g := m.acquire()
	defer g.release()
	c := g.clients.byID[id]
	if c == nil || c.Minor != 0 || c.known.dying.Load() {
		return nfs4wire.NFS4ErrStaleClientID
	}
	v := &c.known.v40
	update := c.known.confirmed && v.updating && confirm == v.updateConfirm
	switch {
	case !update && confirm != v.confirm:
		return nfs4wire.NFS4ErrStaleClientID
	case c.Principal != principal:
		return nfs4wire.NFS4ErrClIDInUse
	case update:
		v.confirm, v.callback, v.updating = v.updateConfirm, v.updatedCallback, false
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
