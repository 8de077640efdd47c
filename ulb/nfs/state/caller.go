package state

import (
	"net/netip"
	"slices"

	"github.com/nfsrdmad/nfsrdmad/internal/clientaddr"
)

// This file decides for which client a caller speaks. docs/security.md has the rule as a table.

// A Caller is what the server knows about the sender of a request.
type Caller struct {
	// Principal identifies the caller, in the notation of nfs4.PrincipalOf. Proven is true if the RPC flavor
	// proves it. Otherwise the caller only claims it.
	Principal string
	Proven    bool
	// Intact is true if the RPC flavor protects the integrity of the request.
	Intact  bool
	Address netip.Addr
	// Privileged is rpc.Conn.Privileged: on Unix only root can send from the caller's port.
	Privileged bool
}

// A prover is what tells apart clients with one name. Clients whose principals are proven have one prover: of
// two such principals, one has to wait for the other (RFC 8881 §18.35.4, RFC 7530 §16.33.5). Under AUTH_SYS
// every machine claims the same principal, so there the source stands for it: no machine can keep a name from
// another one.
type prover struct {
	proven bool
	source source // zero if proven is true
}

// A source is where a request comes from: the address (clientaddr.Of), and whether the port is privileged. A
// program of an ordinary user must not speak for the kernel of its machine.
type source struct {
	address    netip.Addr
	privileged bool
}

func (by *Caller) source() source { return source{clientaddr.Of(by.Address), by.Privileged} }

func (by *Caller) prover() prover {
	if by.Proven {
		return prover{proven: true}
	}
	return prover{source: by.source()}
}

// covers reports whether a caller from the source x may speak for a client that has been met at s.
func (s source) covers(x source) bool {
	return s.address == x.address && (x.privileged || !s.privileged)
}

// SpeaksFor reports whether a request that has the client ID of c counts as a request of c, and stores its
// source in lease.met if only c can have sent it: the caller proves the principal of c, or c is a client of
// minor version 0 whose principal is not proven. The ID of such a client is a secret: see shown. Any other
// client ID counts from the sources in lease.met. In minor version 0 the users of a machine open files by its
// client ID, so there it also counts wherever the caller proves another principal: a machine with a new address
// would take NoClient for a restart of the server.
func (m *Manager) SpeaksFor(c *Client, by *Caller) bool {
	from := by.source()
	switch {
	case c.hasMet(from):
	case by.Proven && by.Principal == c.Principal || c.secretID() && !c.prover.proven:
		m.mu.Lock()
		defer m.mu.Unlock()
		c.meet(from)
	default:
		return c.secretID() && by.Proven
	}
	return true
}

// maxMet is the largest number of sources in lease.met of one client.
const maxMet = 8

// meet stores that the client has called from a source. It keeps the last maxMet. The caller holds Manager.mu.
func (c *Client) meet(from source) {
	if c.hasMet(from) {
		return
	}
	var met []source
	if old := c.known.met.Load(); old != nil {
		met = (*old)[max(0, len(*old)+1-maxMet):]
	}
	met = append(slices.Clone(met), from)
	c.known.met.Store(&met)
}

// hasMet reports whether lease.met covers a source. It takes no lock.
func (c *Client) hasMet(from source) bool {
	met := c.known.met.Load()
	return met != nil && slices.ContainsFunc(*met, func(s source) bool { return s.covers(from) })
}

// An instance is one incarnation of a client, as the client describes it. The verifier is a secret of the
// client, so a request with it is the client's, wherever it comes from: a client may have several addresses
// (RFC 8881 §2.10.5), or get new ones, and an address translator may change its ports.
type instance struct {
	kind             ClientKind
	owner, principal string
	verifier         [8]byte
}

func (c *Client) instance() instance { return instance{c.Kind, c.Owner, c.Principal, c.Verifier} }

// sameAs returns the confirmed client that sent id, perhaps from another source, or nil: see instance.
func (g *guard) sameAs(kind ClientKind, id *Identity) *Client {
	c := g.clients.byInstance[instance{kind, string(id.Owner), id.Principal, id.Verifier}]
	if c == nil || !id.of(c) {
		return nil
	}
	return c
}

// alias stores that the client c has shown its verifier from the place of n. A later incarnation may come from there.
func (g *guard) alias(n name, c *Client) {
	k := &c.known
	if n == c.name() || g.clients.byAlias[n] == c {
		return
	}
	if len(k.aliases) == maxMet {
		if first := k.aliases[0]; g.clients.byAlias[first] == c {
			delete(g.clients.byAlias, first)
		}
		k.aliases = slices.Delete(k.aliases, 0, 1)
	}
	k.aliases = append(k.aliases, n)
	g.clients.byAlias[n] = c
}

// aliased returns the client that the next incarnation at the place of n replaces, though it was made at another
// place, or nil: see alias. A client that was made at that place itself comes first.
func (g *guard) aliased(n name, principal string) *Client {
	c := g.clients.byAlias[n]
	if c == nil || g.clients.byName[n].confirmed != nil || c.Principal != principal {
		return nil
	}
	return c
}
