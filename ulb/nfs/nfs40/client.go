package nfs40

import (
	"sync"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// A client is what is kept beside a state.Client of minor version 0.
type client struct {
	channel *Channel // nil: it is not called back

	mu sync.Mutex
	// openers are the principals that have opened files in the client's name, beside
	// the client's own. Where there are too many it is all of them.
	openers map[string]bool
	anybody bool
}

// maxOpeners is how many principals are told apart.
const maxOpeners = 64

// Active implements state.Companion.
func (c *client) Active() bool { return false }

// Busy implements state.Companion. A request whose client goes while it is under way
// finds that out where it would change what the client holds.
func (c *client) Busy() bool { return false }

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

// ChannelOf is the way by which a client of minor version 0 is called back, or nil.
func ChannelOf(c *state.Client) *Channel {
	if x, ok := c.Companion().(*client); ok {
		return x.channel
	}
	return nil
}

// Client implements nfs4.Identifier: the client that has confirmed itself with an
// identity. That renews its lease (RFC 7530 §9.5).
func (m *Minor) Client(k *nfs4.Compound, id uint64) (*state.Client, nfs4.Status) {
	c, s := m.client(id)
	if s != wire.NFS4OK {
		return nil, s
	}
	m.state.Renew(c)
	return c, wire.NFS4OK
}

// Opened implements nfs4.Identifier: the principal may renew the client's lease from now on.
func (m *Minor) Opened(k *nfs4.Compound, c *state.Client) {
	if p := nfs4.PrincipalOf(&k.Call.Cred); p != c.Principal {
		companion(c).opens(p)
	}
}

// client is the client with an identity. NFS4ERR_EXPIRED: it was one, and has lost all
// that it held. NFS4ERR_STALE_CLIENTID: it is none of this life of the server, or has not
// confirmed itself.
func (m *Minor) client(id uint64) (*state.Client, nfs4.Status) {
	c := m.state.Client(id)
	switch {
	case c == nil && uint32(id>>32)-m.state.Epoch() < epochs, c != nil && c.Dying():
		return nil, wire.NFS4ErrExpired
	case c == nil, c.Minor != 0, !m.state.Confirmed(c):
		return nil, wire.NFS4ErrStaleClientID
	}
	return c, wire.NFS4OK
}

// epochs is how far apart the epochs of two lives of the server are: see
// state.Manager.Epoch.
const epochs = 256
