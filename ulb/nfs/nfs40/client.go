package nfs40

import (
	"net/netip"
	"sync"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// A client is the state.Companion of a client of minor version 0: it holds the data of the client
// that only this package uses.
type client struct {
	channel *Channel // nil if the server cannot call the client back

	mu sync.Mutex
	// openers are the principals, other than the client's own, that have opened files for the client. If
	// there are more than maxOpeners, anybody is true, and every principal counts as an opener.
	openers map[string]bool
	anybody bool
}

// maxOpeners is the maximum number of principals that openers holds.
const maxOpeners = 64

// Gone implements state.Companion.
func (c *client) Gone() {
	if c.channel != nil {
		c.channel.close()
	}
}

func (c *client) opens(principal string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.openers == nil {
		c.openers = make(map[string]bool)
	}
	if c.anybody = c.anybody || len(c.openers) >= maxOpeners; !c.anybody {
		c.openers[principal] = true
	}
}

func (c *client) opened(principal string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.anybody || c.openers[principal]
}

func companion(c *state.Client) *client { return c.Companion().(*client) }

// CallbackTo returns where a client can be called back, as it told, and whether the latest call reached it there. Of a
// client that is not confirmed, or that the server cannot call, the address is not valid. CallbackTo returns false if c
// is no client of minor version 0. It may be called from any goroutine.
func CallbackTo(c *state.Client) (at netip.AddrPort, up, ok bool) {
	x, ok := c.Companion().(*client)
	if !ok {
		return netip.AddrPort{}, false, false
	}
	if x.channel == nil {
		return netip.AddrPort{}, false, true
	}
	x.channel.mu.Lock()
	defer x.channel.mu.Unlock()
	return x.channel.target.Dial, x.channel.Up(), true
}

// Client implements nfs4.Identifier: it returns the confirmed client with a client ID, for which the caller
// may speak, and renews its lease (RFC 7530 §9.5).
func (m *Minor) Client(k *nfs4.Compound, id uint64) (*state.Client, nfs4.Status) {
	c, s := m.client(k, id)
	if s != wire.NFS4OK {
		return nil, s
	}
	m.state.Renew(c)
	return c, wire.NFS4OK
}

// Opened implements nfs4.Identifier: from now on the caller's principal may renew the client's lease.
func (m *Minor) Opened(k *nfs4.Compound, c *state.Client) {
	if p := nfs4.PrincipalOf(&k.Call.Cred); p != c.Principal {
		companion(c).opens(p)
	}
}

// client returns the client with a client ID. It returns NFS4ERR_EXPIRED if the server has removed the
// client since its start or is evicting it, and NFS4ERR_STALE_CLIENTID if the ID is from another run of
// the server, the client has another minor version or has not confirmed itself, or the caller does not speak
// for it: a client with a new address then sends SETCLIENTID again.
func (m *Minor) client(k *nfs4.Compound, id uint64) (*state.Client, nfs4.Status) {
	c := m.state.Client(id)
	switch {
	case c == nil && m.state.Issued(id), c != nil && c.Dying() && k.SpeaksFor(c):
		return nil, wire.NFS4ErrExpired
	case c == nil, c.Kind != state.Minor0, !m.state.Confirmed(c), !k.SpeaksFor(c):
		return nil, wire.NFS4ErrStaleClientID
	}
	return c, wire.NFS4OK
}

// renew is RENEW (RFC 7530 §16.28). The client's own principal and every principal that has opened files
// for the client may renew the lease. If a client with delegations cannot be called back, renew also
// answers NFS4ERR_CB_PATH_DOWN, and tries to reach the client in the background.
func (m *Minor) renew(k *nfs4.Compound, args *wire.Renew4Args) nfs4.Status {
	c, s := m.client(k, args.Clientid)
	if s != wire.NFS4OK {
		return s
	}
	if p := nfs4.PrincipalOf(&k.Call.Cred); p != c.Principal && !companion(c).opened(p) {
		return wire.NFS4ErrAccess
	}
	m.state.Renew(c)
	if m.cfg.Delegated == nil || !m.cfg.Delegated(c) {
		return wire.NFS4OK
	}
	ch := companion(c).channel
	if ch != nil && ch.Up() {
		return wire.NFS4OK
	}
	if ch != nil {
		ch.Probe()
	}
	return wire.NFS4ErrCBPathDown
}
