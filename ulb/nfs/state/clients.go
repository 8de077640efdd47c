package state

import (
	"container/list"
	"net/netip"

	"github.com/nfsrdmad/nfsrdmad/internal/clientaddr"
)

// A Client is one incarnation of a client. An EXCHANGE_ID, a SETCLIENTID, or the first lock of a host creates it.
type Client struct {
	// ID is never used again, and no other client can guess it: see clients.nextID.
	ID   uint64
	Kind ClientKind
	// Owner is the client's own name for itself. Verifier tells its incarnations apart.
	Owner    string
	Verifier Verifier
	// Principal is the caller that made the client, in the notation of nfs4.PrincipalOf.
	Principal string
	// Guarded is true if the client asked for SP4_MACH_CRED (RFC 8881 §2.4.3): see Identity.of.
	Guarded bool

	prover     prover // of the request that made the client
	privileged bool   // Caller.Privileged of that request

	known   lease    // lease and identity; see lease.go
	holding holdings // opens and locks; see files.go
}

// Limits on the number of clients: those with From in their names for each address, the others for the
// whole server. The clients of one address may take at most half of the places that the clients of
// other addresses leave free, both of maxClients and of maxUnconfirmed. See makeRoom.
const (
	maxClients         = 16384
	maxClientsFrom     = 4096
	maxUnconfirmed     = 8192
	maxUnconfirmedFrom = 4096
)

// clients holds all clients, by client ID and by name.
type clients struct {
	// epoch is Manager.epoch, and last counts the client IDs: see nextID.
	epoch       uint32
	last        uint64
	byID        map[uint64]*Client
	byName      map[name]incarnations
	byInstance  map[instance]*Client // the confirmed clients
	byAlias     map[name]*Client     // confirmed clients by the names of other places: see guard.alias
	from        map[netip.Addr]*origin
	unconfirmed list.List // the oldest first
	confirmed   int       // number of confirmed clients
	origins     int       // number of addresses that have confirmed clients
	scramble    scrambler
}

// A name identifies a client across restarts of the client and of the server. Clients of minor version
// 0 and of later versions are different clients, even if they send the same name, and so are clients with
// different provers.
type name struct {
	kind   ClientKind
	owner  string
	prover prover
}

// incarnations are the clients with one name: at most one confirmed and one unconfirmed.
type incarnations struct {
	confirmed, unconfirmed *Client
}

// An origin counts what the clients of one address (clientaddr.Of) hold.
type origin struct {
	confirmed   int
	minor0      int       // how many of the confirmed clients have minor version 0
	unconfirmed list.List // the oldest first
	address     netip.Addr
	waiters     int // number of denied locks for which its clients wait
	files       openFiles
	hosts       map[*Client]struct{} // those of its clients that are hosts
}

// part returns the fair share of one address in n items; a new address counts as well.
func (t *clients) part(n int) int { return n / (t.origins + 1) }

// mayConfirm reports whether one more client of the address may confirm itself.
func (o *origin) mayConfirm(t *clients) bool {
	return o.confirmed < min(maxClientsFrom, maxClients-t.confirmed)
}

// mayIntroduce reports whether the address may have one more unconfirmed client.
func (o *origin) mayIntroduce(t *clients) bool {
	return o.unconfirmed.Len() < min(maxUnconfirmedFrom, maxUnconfirmed-t.unconfirmed.Len())
}

// A Companion is the data that the protocol package (nfs40 or nfs41) keeps for a client.
type Companion interface {
	// The Manager calls Gone once, without a lock, after it has removed the client.
	Gone()
}

// A Verifier tells the incarnations of a client apart, or confirms one.
type Verifier = [8]byte

// An Identity is a client's description of itself, and how well the server could check it.
type Identity struct {
	// Owner is the client's name for itself. The Manager copies it.
	Owner    []byte
	Verifier Verifier
	Caller
	// Guarded is the Client.Guarded of a client that the request creates.
	Guarded bool
	// Companion belongs to the client that the request creates, if it creates one.
	Companion Companion
}

// of reports whether a request with the Identity id counts as a request of the client c: it has the
// Principal of c and, if c.Guarded is true, integrity protection. Without that protection an attacker
// may have changed the request on its way.
func (id *Identity) of(c *Client) bool {
	return id.Principal == c.Principal && (id.Intact || !c.Guarded)
}

// idBits is the number of bits of a client ID that are scrambled. The other bits number the server's start.
const idBits = 48

// start returns the upper bits of the client IDs of this start of the server: see Manager.Epoch.
func (c *clients) start() uint64 { return uint64(uint16(c.epoch >> 8)) }

// nextID returns a client ID that was never used before and that no client can guess.
func (c *clients) nextID() uint64 {
	c.last++
	return c.start()<<idBits | c.scramble.of(c.epoch, c.last, idBits)
}

// Issued reports whether a client ID may be one that the server has given out since its start.
func (m *Manager) Issued(id uint64) bool { return id>>idBits == m.clients.start() }

func (c *Client) name() name { return name{c.Kind, c.Owner, c.prover} }

func (id *Identity) name(kind ClientKind) name { return name{kind, string(id.Owner), id.prover()} }

// Companion returns the data that the protocol package keeps for the client.
func (c *Client) Companion() Companion { return c.known.companion }

// Address returns where the client came from, by clientaddr.Of.
func (c *Client) Address() netip.Addr { return c.known.address }

// ConfirmedClients returns the number of clients that have confirmed themselves.
func (m *Manager) ConfirmedClients() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.clients.confirmed
}

// Client returns the client with this ID, confirmed or not, or nil.
func (m *Manager) Client(id uint64) *Client {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.clients.byID[id]
}

// Confirmed reports whether the client has confirmed itself.
func (m *Manager) Confirmed(c *Client) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return c.known.confirmed
}

// Earlier returns the confirmed client that c replaces when it confirms itself: the earlier incarnation of the same
// client. It returns nil if there is none.
func (m *Manager) Earlier(c *Client) *Client {
	m.mu.Lock()
	defer m.mu.Unlock()
	if of := m.clients.byName[c.name()].confirmed; of != c {
		return of
	}
	return nil
}

// add creates an unconfirmed client.
func (g *guard) add(kind ClientKind, id *Identity) *Client {
	t := &g.clients
	c := &Client{
		ID: t.nextID(), Kind: kind, Owner: string(id.Owner),
		Verifier: id.Verifier, Principal: id.Principal, Guarded: id.Guarded, prover: id.prover(), privileged: id.Privileged,
	}
	c.holding = holdings{
		states: make(map[*State]struct{}), revoked: make(map[*State]struct{}), waiting: make(map[*file]int),
		owners: make(map[ownerKey]*Owner),
	}
	c.known.address = clientaddr.Of(id.Address)
	c.holding.place.Of, c.holding.place.Address = c, c.known.address
	c.meet(id.source())
	c.known.renewed.Store(int64(g.now()))
	c.known.companion = id.Companion
	g.makeRoom(c)
	o := t.from[c.known.address]
	if o == nil {
		o = &origin{address: c.known.address}
		t.from[c.known.address] = o
	}
	t.byName[c.name()] = incarnations{t.byName[c.name()].confirmed, c}
	c.known.origin = o
	t.byID[c.ID] = c
	c.known.inAll = t.unconfirmed.PushBack(c)
	c.known.inOrigin = o.unconfirmed.PushBack(c)
	return c
}

// makeRoom removes the unconfirmed client that has the same name as c. If there is none, and the
// number of unconfirmed clients has reached a limit (see maxClients), makeRoom removes the oldest
// unconfirmed client of the same address or, if the address has none, of all addresses.
func (g *guard) makeRoom(c *Client) {
	t := &g.clients
	if other := t.byName[c.name()].unconfirmed; other != nil {
		g.remove(other)
	} else if o := t.from[c.known.address]; o != nil && o.unconfirmed.Len() > 0 && !o.mayIntroduce(t) {
		g.remove(o.unconfirmed.Front().Value.(*Client))
	} else if t.unconfirmed.Len() >= maxUnconfirmed {
		g.remove(t.unconfirmed.Front().Value.(*Client))
	}
}

// confirm makes an unconfirmed client a confirmed one, and removes the earlier incarnation with all its
// state. c takes over the stored record of that incarnation if the record describes c as well. If the earlier
// incarnation had another place, its record is removed later.
//
// confirm returns TryLater if there are too many clients, or if the earlier incarnation is being
// evicted, because the eviction may be removing the record and the right to reclaim state that c would take
// over. So does a repeated confirmation while the state of the earlier incarnation ends in pieces. If c has gone
// meanwhile, confirm returns NoClient.
func (p *piecewise) confirm(c *Client) Verdict {
	g := p.guard
	t := &g.clients
	old, o := t.byName[c.name()].confirmed, c.known.origin
	moved := g.aliased(c.name(), c.Principal)
	switch {
	case old == nil && !o.mayConfirm(t):
		g.relieve(g.ofPlaces(), o.confirmed < t.part(maxClients)/2)
		return TryLater
	case old != nil && old.known.dying.Load(), moved != nil && moved.known.dying.Load():
		return TryLater
	}
	if old != nil && moved != nil {
		// While the state of old ends in pieces, no other client can take the place of moved.
		moved.known.dying.Store(true)
	}
	for _, earlier := range []*Client{old, moved} {
		if earlier != nil {
			p.drain(earlier)
		}
	}
	if c.known.gone {
		for _, earlier := range []*Client{old, moved} {
			if earlier != nil {
				g.remove(earlier)
				g.forgetUnlessClaimed(earlier)
			}
		}
		return NoClient
	}
	if old != nil {
		k := &old.known.reclaim
		if !k.revoked && old.Guarded == c.Guarded { // else c needs another record: without Revoked, or with its own Guarded
			c.known.reclaim.stored = k.stored
		}
		g.remove(old)
	}
	if moved != nil {
		g.remove(moved)
	}
	t.unconfirmed.Remove(c.known.inAll)
	o.unconfirmed.Remove(c.known.inOrigin)
	c.known.inAll, c.known.inOrigin = nil, nil
	t.byName[c.name()] = incarnations{confirmed: c}
	t.byInstance[c.instance()] = c
	c.known.confirmed = true
	c.known.renewed.Store(int64(g.now()))
	t.confirmed++
	if o.confirmed++; o.confirmed == 1 {
		t.origins++
	}
	if c.Kind == Minor0 {
		o.minor0++
	}
	g.shareClaim(c)
	if moved != nil {
		g.forgetUnlessClaimed(moved)
	}
	if g.mayReclaim(c) {
		c.known.reclaim.needed.Store(true)
		g.grace.claimed = g.now() // the client gets time to reclaim its state
	}
	return Granted
}

// forgetUnlessClaimed has the record of a client removed. While its next incarnation may reclaim state by that record, the
// record stays, until the grace period ends.
func (g *guard) forgetUnlessClaimed(c *Client) {
	if r := g.claimOf(c); r == nil || r.done {
		g.forget(c)
	}
}

// remove removes a client and all its state from the tables. The record on stable storage stays: the
// caller removes it, or a new incarnation of the client takes it over.
func (g *guard) remove(c *Client) {
	t := &g.clients
	if c.known.gone {
		return
	}
	c.known.gone = true
	c.known.ending.Store(true)
	c.known.dying.Store(true)
	in, o := t.byName[c.name()], c.known.origin
	if c.known.confirmed {
		in.confirmed = nil
		if i := c.instance(); t.byInstance[i] == c {
			delete(t.byInstance, i)
		}
		for _, n := range c.known.aliases {
			if t.byAlias[n] == c {
				delete(t.byAlias, n)
			}
		}
		t.confirmed--
		if o.confirmed--; o.confirmed == 0 {
			t.origins--
		}
		if c.Kind == Minor0 {
			o.minor0--
		}
	} else {
		in.unconfirmed = nil
		t.unconfirmed.Remove(c.known.inAll)
		o.unconfirmed.Remove(c.known.inOrigin)
	}
	if t.byName[c.name()] = in; in == (incarnations{}) {
		delete(t.byName, c.name())
	}
	if o.confirmed == 0 && o.unconfirmed.Len() == 0 {
		delete(t.from, c.known.address)
	}
	delete(t.byID, c.ID)
	delete(o.hosts, c)
	g.dropAll(c)
	g.gone = append(g.gone, c)
	g.ended = append(g.ended, c.known.ended...)
	c.known.ended = nil
}

// inUse reports whether a client holds state or has a session.
func (g *guard) inUse(c *Client) bool { return g.holds(c) || c.known.sessions.Load() > 0 }

// atWork reports whether a client is in use, or may still reclaim state from before the restart.
func (g *guard) atWork(c *Client) bool { return g.inUse(c) || g.claimOf(c) != nil }

// Destroy is DESTROY_CLIENTID (RFC 8881 §18.50): it removes a client that has no state and no session, and
// has the sweep remove its record.
func (m *Manager) Destroy(c *Client) Verdict {
	g := m.acquire()
	defer g.release()
	switch {
	case c.known.gone:
		return NoClient
	case g.inUse(c):
		return HoldsState
	}
	confirmed := c.known.confirmed
	if g.remove(c); confirmed {
		g.forget(c)
	}
	return Granted
}
