package state

import (
	"container/list"
	"hash/maphash"
	"net/netip"
	"slices"

	"github.com/nfsrdmad/nfsrdmad/internal/clientaddr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// A Status is the result of a client's request.
type Status = nfs4wire.NFSStat4

// Bounds on the number of clients: confirmed ones in all and of one address, and unconfirmed ones
// in all and of one address. One address may use at most half of the places that other addresses
// do not use. If a new unconfirmed client exceeds a bound, the oldest unconfirmed client of its
// address goes, or, if its address has none, the oldest of all.
const (
	maxClients         = 16384
	maxClientsFrom     = 4096
	maxUnconfirmed     = 8192
	maxUnconfirmedFrom = 4096
)

// clients holds all clients, by identity and by name.
type clients struct {
	// epoch is the upper half of the next identity. last is the counter behind the lower half of
	// the latest identity.
	epoch, last uint32
	byID        map[uint64]*Client
	byName      map[name]*incarnations
	from        map[netip.Addr]*origin
	// unconfirmed lists the unconfirmed clients, the oldest first. confirmed counts the confirmed
	// ones.
	unconfirmed list.List
	confirmed   int
	// origins is the number of addresses that have confirmed clients.
	origins  int
	scramble scrambler
}

// A name identifies a client across restarts of the client and of the server. Clients of minor
// version 0 and clients of later versions have separate names.
type name struct {
	minor uint32
	owner string
}

// incarnations are the clients with one name: at most one confirmed and one unconfirmed.
type incarnations struct {
	confirmed, unconfirmed *Client
}

// An origin is an address from which clients made themselves known, as clientaddr.Of reduces it:
// an IPv4 address, or a /64 prefix of IPv6.
type origin struct {
	confirmed   int
	unconfirmed list.List // the oldest first
	memory      int       // of its clients, in bytes
	waiters     int       // number of locks that its clients wait for
	files       openFiles
}

// part returns the share of one address if all addresses with clients, and one more, had equal
// shares of n.
func (t *clients) part(n int) int { return n / (t.origins + 1) }

// mayConfirm reports whether one more client of the address may confirm itself.
func (o *origin) mayConfirm(t *clients) bool {
	return o.confirmed < min(maxClientsFrom, maxClients-t.confirmed)
}

// mayIntroduce reports whether the address may have one more unconfirmed client.
func (o *origin) mayIntroduce(t *clients) bool {
	return o.unconfirmed.Len() < min(maxUnconfirmedFrom, maxUnconfirmed-t.unconfirmed.Len())
}

// A Companion is the data that the protocol package (nfs41) keeps for a client.
type Companion interface {
	// Active reports whether the client still uses something there, such as a session. The caller
	// holds the Manager's mutex: Active must neither block nor call the Manager.
	Active() bool
	// Busy reports whether a request of the client is under way. The rules of Active hold for it.
	Busy() bool
	// The Manager calls Gone once, without a lock, after it removed the client.
	Gone()
}

// An Identity is a client's description of itself, and how well the server could check it.
type Identity struct {
	// The Manager copies Owner.
	Owner     []byte
	Verifier  nfs4wire.Verifier4
	Principal string
	// Proven: the RPC flavor proved the principal; the client did not just claim it.
	Proven bool
	// Intact: the RPC flavor protected the request against change on its way. Guarded: the client
	// demands that protection for all requests that make it known.
	Intact, Guarded bool
	Address         netip.Addr
	// Follow makes the companion of a new client; if it is nil, the client has none. The Manager
	// calls it with its mutex held.
	Follow func(c *Client) Companion
}

// of reports whether the request comes from the client of which c is an incarnation. If c is
// guarded, a request without integrity protection counts as another client's, because an attacker
// may have replaced its verifier.
func (id *Identity) of(c *Client) bool {
	return id.Principal == c.Principal && (id.Intact || !c.Guarded)
}

func (c *clients) begin(epoch uint32) {
	c.epoch = epoch
	c.scramble.seed = maphash.MakeSeed()
	c.byID = map[uint64]*Client{}
	c.byName = map[name]*incarnations{}
	c.from = map[netip.Addr]*origin{}
}

// nextID returns a client ID that was never used before and that no client can guess. It must not
// be guessable, because in minor version 0 the ID is all that a request needs to act as the
// client. The epochs of two starts differ by at least 256, so that the counter may overflow 255
// times.
func (c *clients) nextID() uint64 {
	if c.last++; c.last == 0 {
		c.epoch++
		c.last = 1
	}
	return uint64(c.epoch)<<32 | uint64(c.scramble.of(c.epoch, c.last))
}

func (c *Client) name() name { return name{c.Minor, c.Owner} }

// Companion returns the data that the protocol package keeps for the client.
func (c *Client) Companion() Companion { return c.known.companion }

// Client returns the client with this ID, confirmed or not, or nil.
func (m *Manager) Client(id uint64) *Client {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.clients.byID[id]
}

// maxMet is the largest number of addresses that the Manager remembers for each client.
const maxMet = 8

// meet notes that the client used its own verifier from this address. The caller holds m.mu.
func (c *Client) meet(a netip.Addr) {
	if a = clientaddr.Of(a); !slices.Contains(c.known.met, a) {
		c.known.met = append(c.known.met, a)
		if n := len(c.known.met); n > maxMet {
			c.known.met = slices.Delete(c.known.met, 0, n-maxMet)
		}
	}
}

// Met reports whether the client has made itself known from this address, by the EXCHANGE_ID or
// SETCLIENTID that made it, or by one with the same verifier. No other client knows that
// verifier.
func (m *Manager) Met(c *Client, a netip.Addr) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Contains(c.known.met, clientaddr.Of(a))
}

// contested reports whether a request with the name of old and another verifier may come from
// another client that took the name. That is so if its principal is not proven, it comes from an
// address that old never used, and old is still at work. The request has to wait until old is
// gone or its lease runs out. A client that moved to another machine and restarted waits as well.
func (m *Manager) contested(old *Client, proven bool, from netip.Addr) bool {
	return !proven && !slices.Contains(old.known.met, clientaddr.Of(from)) && m.atWork(old)
}

// Confirmed reports whether the client has confirmed itself.
func (m *Manager) Confirmed(c *Client) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return c.known.confirmed
}

// add makes an unconfirmed client, and removes an unconfirmed one of the same name. The caller
// holds m.mu, and calls after once it has released m.mu.
func (m *Manager) add(minor uint32, id *Identity) (c *Client, after func()) {
	c = &Client{
		ID: m.clients.nextID(), Minor: minor, Owner: string(id.Owner),
		Verifier: id.Verifier, Principal: id.Principal, Guarded: id.Guarded,
	}
	c.known.address = clientaddr.Of(id.Address)
	c.known.proven = id.Proven
	c.meet(id.Address)
	c.known.renewed.Store(int64(m.now()))
	if id.Follow != nil {
		c.known.companion = id.Follow(c)
	}
	return c, m.insert(c)
}

// insert adds an unconfirmed client to the tables. The caller calls after once it has released
// m.mu.
func (m *Manager) insert(c *Client) (after func()) {
	t := &m.clients
	gone := m.makeRoom(c)
	in := t.byName[c.name()]
	if in == nil {
		in = &incarnations{}
		t.byName[c.name()] = in
	}
	o := t.from[c.known.address]
	if o == nil {
		o = &origin{}
		t.from[c.known.address] = o
	}
	in.unconfirmed = c
	c.known.origin = o
	t.byID[c.ID] = c
	c.known.inAll = t.unconfirmed.PushBack(c)
	c.known.inOrigin = o.unconfirmed.PushBack(c)
	return gone
}

// makeRoom removes the unconfirmed client that c replaces. If there is none and there are too
// many unconfirmed clients, it removes the oldest.
func (m *Manager) makeRoom(c *Client) (after func()) {
	t := &m.clients
	if in := t.byName[c.name()]; in != nil && in.unconfirmed != nil {
		return m.remove(in.unconfirmed)
	}
	if o := t.from[c.known.address]; o != nil && o.unconfirmed.Len() > 0 && !o.mayIntroduce(t) {
		return m.remove(o.unconfirmed.Front().Value.(*Client))
	}
	if t.unconfirmed.Len() >= maxUnconfirmed {
		return m.remove(t.unconfirmed.Front().Value.(*Client))
	}
	return func() {}
}

// confirm makes an unconfirmed client a confirmed one. It removes the earlier incarnation with
// all its state; the record of that one becomes the record of c. The caller holds m.mu, and calls
// after once it has released m.mu. NFS4ERR_DELAY: there are too many clients at the moment, the
// name is contested, or an eviction of the earlier incarnation is under way, which owns its
// record and claim until it ends.
func (m *Manager) confirm(c *Client) (after func(), s Status) {
	t := &m.clients
	in, o := t.byName[c.name()], c.known.origin
	switch old := in.confirmed; {
	case old == nil && !o.mayConfirm(t):
		m.relieve(m.ofPlaces(), o.confirmed < t.part(maxClients)/2)
		return func() {}, nfs4wire.NFS4ErrDelay
	case old != nil && (old.known.evicted != nil || m.contested(old, c.known.proven, c.known.address)):
		return func() {}, nfs4wire.NFS4ErrDelay
	}
	after = func() {}
	if in.confirmed != nil {
		old := in.confirmed
		k := &old.known.reclaim
		if !k.revoked && old.Guarded == c.Guarded { // no revoked state is left: the old incarnation takes it along
			c.known.reclaim.stored = k.stored
		}
		after = m.remove(old)
	}
	t.unconfirmed.Remove(c.known.inAll)
	o.unconfirmed.Remove(c.known.inOrigin)
	c.known.inAll, c.known.inOrigin = nil, nil
	in.unconfirmed, in.confirmed = nil, c
	c.known.confirmed = true
	c.known.renewed.Store(int64(m.now()))
	t.confirmed++
	if o.confirmed++; o.confirmed == 1 {
		t.origins++
	}
	m.mayBeNeeded(c)
	return after, nfs4wire.NFS4OK
}

// remove takes a client and all its state out of the tables. The caller holds m.mu, and calls
// after once it has released m.mu. The caller also removes the record on stable storage.
func (m *Manager) remove(c *Client) (after func()) {
	t := &m.clients
	if c.known.gone {
		return func() {}
	}
	c.known.gone = true
	c.known.dying.Store(true)
	in, o := t.byName[c.name()], c.known.origin
	if c.known.confirmed {
		in.confirmed = nil
		t.confirmed--
		if o.confirmed--; o.confirmed == 0 {
			t.origins--
		}
	} else {
		in.unconfirmed = nil
		t.unconfirmed.Remove(c.known.inAll)
		o.unconfirmed.Remove(c.known.inOrigin)
	}
	if in.confirmed == nil && in.unconfirmed == nil {
		delete(t.byName, c.name())
	}
	if o.confirmed == 0 && o.unconfirmed.Len() == 0 {
		delete(t.from, c.known.address)
	}
	delete(t.byID, c.ID)
	drop := m.dropAll(c)
	return func() {
		drop()
		if x := c.known.companion; x != nil {
			x.Gone()
		}
	}
}

// afterwards collects functions to call once the mutex is released.
type afterwards struct{ all []func() }

func (a *afterwards) add(f func()) { a.all = append(a.all, f) }

func (a *afterwards) run() {
	for _, f := range a.all {
		f()
	}
}

// inUse reports whether a client holds state, or its Companion is active. The caller holds m.mu.
func (m *Manager) inUse(c *Client) bool {
	x := c.known.companion
	return m.holds(c) || x != nil && x.Active()
}

// yields reports whether c gives up its name to a client with another principal, as id describes
// it. If only the principal of id is proven, c keeps the name only by opens, locks or a claim,
// because anyone can create sessions and renew them.
func (m *Manager) yields(c *Client, id *Identity) bool {
	if id.Proven && !c.known.proven {
		return !m.holds(c) && m.claimOf(c) == nil
	}
	return !m.atWork(c)
}

// atWork reports whether a client is in use, or may still claim state from before the restart.
// The caller holds m.mu.
func (m *Manager) atWork(c *Client) bool { return m.inUse(c) || m.claimOf(c) != nil }

// Destroy removes a client that holds nothing (RFC 8881 §18.50). NFS4ERR_CLIENTID_BUSY: the
// client still holds something.
func (m *Manager) Destroy(c *Client) Status {
	m.mu.Lock()
	if c.known.gone {
		m.mu.Unlock()
		return nfs4wire.NFS4ErrStaleClientID
	}
	if m.inUse(c) {
		m.mu.Unlock()
		return nfs4wire.NFS4ErrClientIDBusy
	}
	confirmed := c.known.confirmed
	after := m.remove(c)
	if confirmed {
		m.forget(c)
	}
	m.mu.Unlock()
	after()
	return nfs4wire.NFS4OK
}
