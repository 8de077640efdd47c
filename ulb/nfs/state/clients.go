package state

import (
	"container/list"
	"hash/maphash"
	"net/netip"
	"slices"

	"github.com/nfsrdmad/nfsrdmad/internal/census"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// A Status is what a request of a client came to.
type Status = nfs4wire.NFSStat4

// How many clients there are at most: confirmed ones, in all and of one address, and
// ones that have not confirmed themselves yet. Of the latter the oldest of the same
// address goes where there would be more. Of what is left in all, one address may have no
// more than it leaves to others.
const (
	maxClients         = 16384
	maxClientsFrom     = 4096
	maxUnconfirmed     = 8192
	maxUnconfirmedFrom = 4096
)

// clients are all clients, by identity and by name.
type clients struct {
	// epoch is the upper half of the next identity, and last the lower half of the
	// latest.
	epoch, last uint32
	byID        map[uint64]*Client
	byName      map[name]*incarnations
	from        map[netip.Addr]*origin
	// unconfirmed are those, the oldest first; confirmed counts the others.
	unconfirmed list.List
	confirmed   int
	// origins is how many addresses have clients that have confirmed themselves.
	origins  int
	scramble scrambler
}

// A name is what tells clients apart over restarts of theirs and ours. Clients of minor
// version 0 and later ones have names of their own.
type name struct {
	minor uint32
	owner string
}

// incarnations are the clients of one name: at most one that has confirmed itself, and
// one that has not.
type incarnations struct {
	confirmed, unconfirmed *Client
}

// origin is an address that clients have made themselves known from, as census.Client
// counts it: an IPv4 address, or a /64 of IPv6.
type origin struct {
	confirmed   int
	unconfirmed list.List // the oldest first
	memory      int       // what its clients hold, in bytes
	waiters     int       // locks that its clients wait for
	files       openFiles
}

// part is what each address would have of n things if all had the same, and one more.
func (t *clients) part(n int) int { return n / (t.origins + 1) }

// mayConfirm says whether one more of its clients may confirm itself.
func (o *origin) mayConfirm(t *clients) bool {
	return o.confirmed < min(maxClientsFrom, maxClients-t.confirmed)
}

// mayIntroduce says whether it may have one more client that has not confirmed itself.
func (o *origin) mayIntroduce(t *clients) bool {
	return o.unconfirmed.Len() < min(maxUnconfirmedFrom, maxUnconfirmed-t.unconfirmed.Len())
}

// A Companion is what a minor version keeps beside a client.
type Companion interface {
	// Active says that there is something that the client still works with, such as a
	// session. The Manager's mutex is held: Active must neither block nor call the
	// Manager.
	Active() bool
	// Busy says that a request of the client is under way. It is called as Active.
	Busy() bool
	// Gone is called once, without a lock, when the client is no more.
	Gone()
}

// An Identity is who a client says it is, and how that was seen.
type Identity struct {
	// Owner is copied.
	Owner     []byte
	Verifier  nfs4wire.Verifier4
	Principal string
	// Proven: the principal was proven, and not only said.
	Proven bool
	// Intact: the request cannot have been changed on its way. Guarded: the client wants
	// all requests that make it known to be so.
	Intact, Guarded bool
	Address         netip.Addr
	// Follow makes the companion of a new client; nil: it has none. It is called with
	// the Manager's mutex held.
	Follow func(c *Client) Companion
}

// of says whether the request is of the client that c is an incarnation of. A request whose
// contents are not protected counts as another principal's where c is guarded: its verifier
// may be anyone's.
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

// nextID is an identity that was never used before, and that cannot be guessed: with one,
// requests of minor version 0 are made in the client's name. An epoch of Records leaves
// room for 256 of these counters.
func (c *clients) nextID() uint64 {
	if c.last++; c.last == 0 {
		c.epoch++
		c.last = 1
	}
	return uint64(c.epoch)<<32 | uint64(c.scramble.of(c.epoch, c.last))
}

func (c *Client) name() name { return name{c.Minor, c.Owner} }

// Companion is what the client's minor version keeps beside it.
func (c *Client) Companion() Companion { return c.known.companion }

// Client is the client with an identity, confirmed or not, or nil.
func (m *Manager) Client(id uint64) *Client {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.clients.byID[id]
}

// maxMet is how many addresses of a client are remembered.
const maxMet = 8

// meet notes that the client has shown at an address that it knows its own verifier. It is
// called with m.mu held.
func (c *Client) meet(a netip.Addr) {
	if a = census.Client(a); !slices.Contains(c.known.met, a) {
		c.known.met = append(c.known.met, a)
		if n := len(c.known.met); n > maxMet {
			c.known.met = slices.Delete(c.known.met, 0, n-maxMet)
		}
	}
}

// Met says whether the client has made itself known from an address: by the EXCHANGE_ID or
// SETCLIENTID that made it, or by one with the same verifier, which no other client knows.
func (m *Manager) Met(c *Client, a netip.Addr) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Contains(c.known.met, census.Client(a))
}

// contested says that a client with the name of old, but not with its verifier, cannot be
// told from another one that took the name: it comes from an address that old never had,
// and old is still at work. It has to wait until old is gone, or its lease ran out, as that
// of a client does that starts anew somewhere else. It is called with m.mu held.
func (m *Manager) contested(old *Client, proven bool, from netip.Addr) bool {
	return !proven && !slices.Contains(old.known.met, census.Client(from)) && m.atWork(old)
}

// Confirmed says whether the client has confirmed itself.
func (m *Manager) Confirmed(c *Client) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return c.known.confirmed
}

// add makes an unconfirmed client, in place of one of the same name. It is called with
// m.mu held; what it returns beside is called after the mutex was let go.
func (m *Manager) add(minor uint32, id *Identity) (c *Client, after func()) {
	c = &Client{
		ID: m.clients.nextID(), Minor: minor, Owner: string(id.Owner),
		Verifier: id.Verifier, Principal: id.Principal, Guarded: id.Guarded,
	}
	c.known.address = census.Client(id.Address)
	c.known.proven = id.Proven
	c.meet(id.Address)
	c.known.renewed.Store(int64(m.now()))
	if id.Follow != nil {
		c.known.companion = id.Follow(c)
	}
	return c, m.insert(c)
}

// insert puts an unconfirmed client into the tables.
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

// makeRoom removes the unconfirmed client that c replaces, or the oldest where there are
// too many.
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

// confirm makes an unconfirmed client a confirmed one, in place of the earlier
// incarnation of it, whose state dies with it, and whose record becomes its own. It is called
// with m.mu held; what it returns is called after the mutex was let go. DELAY: there are too
// many clients at the moment, or the earlier incarnation is being evicted: its record and its
// claim belong to the eviction until that has ended.
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
		c.known.reclaim.recorded = k.recorded && !k.revoked // what it held is revoked no more
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

// remove takes a client out of the tables, with all that it holds. It is called with m.mu
// held; what it returns is called after the mutex was let go. The record on stable
// storage is the caller's business.
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

// afterwards is what is to be done when the mutex was let go.
type afterwards struct{ all []func() }

func (a *afterwards) add(f func()) { a.all = append(a.all, f) }

func (a *afterwards) run() {
	for _, f := range a.all {
		f()
	}
}

// inUse says that a client holds something, or works with something still. It is called
// with m.mu held.
func (m *Manager) inUse(c *Client) bool {
	x := c.known.companion
	return m.holds(c) || x != nil && x.Active()
}

// yields says that a client of another principal gives its name up to the one of id. A client
// whose principal was only said keeps it from a proven one by nothing but what it has open or
// locked: anyone can make sessions and renew them.
func (m *Manager) yields(c *Client, id *Identity) bool {
	if id.Proven && !c.known.proven {
		return !m.holds(c) && m.claimOf(c) == nil
	}
	return !m.atWork(c)
}

// atWork says that a client is in use, or may claim still what it held before the restart. It
// is called with m.mu held.
func (m *Manager) atWork(c *Client) bool { return m.inUse(c) || m.claimOf(c) != nil }

// Destroy removes a client that holds nothing (RFC 8881 §18.50). CLIENTID_BUSY: it does.
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
