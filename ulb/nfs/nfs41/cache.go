package nfs41

import (
	"net/netip"
	"sync"

	"github.com/nfsrdmad/nfsrdmad/internal/clientaddr"
	"github.com/nfsrdmad/nfsrdmad/internal/fair"
)

// maxCached is the size of the largest reply that a slot keeps, in bytes.
const maxCached = 8 << 10

// These are bytes of memory: slotCost for a slot without its reply, sessionCost for a session without its slots but with
// its first connection and one CB_NULL, and bindingCost for each further connection.
const (
	slotCost    = 256
	sessionCost = 2 << 10
	bindingCost = 256
)

// fewSlots is the number of slots that a new session may still get when half of the memory for
// sessions is in use: see session.
const fewSlots = 8

// leastCached is the size of the largest reply that slot 0 keeps in the smallest session, in bytes, if the client asks
// for more. RFC 8881 §18.36.3 lets the server lower the size as it likes, but a client whose OPENs do not fit is of no
// use. 2 KiB is what the NFS server of Linux offers.
const leastCached = 2 << 10

// A shape is what the memory of a session depends on: its slots, and the size of the largest reply that one of them
// keeps, in bytes.
type shape struct{ slots, cached int }

// aside returns the memory that is set aside for a session of the shape, in bytes.
func (f shape) aside() int64 { return int64(sessionCost + f.slots*slotCost + f.cached) }

// one returns the shape with one slot.
func (f shape) one() shape { return shape{1, f.cached} }

// smallest returns the smallest shape that a client gets that asks for f.
func (f shape) smallest() shape { return shape{1, min(f.cached, leastCached)} }

// cache accounts for the memory of sessions and of stored replies. One half of it is set aside (aside)
// when a session is created: for the session, its slots, and the reply of slot 0, which therefore always
// works. The other half (others) is for the replies of all other slots, for further connections, and for
// calls to clients.
//
// A fair.Tree, in which sessions are the holders, divides the first half. If a new session of an address
// within its part finds no memory, the server ends other sessions for it, one after the other (makeRoom). If there are so
// many sites that a session is larger than a site's part, the new session is of the smallest shape. The sessions of a
// site keep the memory of one such session, so each site has a session as long as the memory has room for one of each.
//
// The rule for units that only their holders give back (fair.Count) divides the other half among sites, and
// among the addresses of a site. If the replies of an address or a site reach the limit, the session of it whose
// replies use the most memory loses those that the client did not ask the server to cache. The others stay until
// the client uses the slot again, or uses fewer slots (RFC 8881 §2.10.6.1.3). Until then, further requests that
// ask for a cached reply get NFS4ERR_DELAY, except in slot 0.
type cache struct {
	// half is the limit of others, in bytes, and others is the memory in use.
	half   int64
	others fair.Count

	// making is held while sessions are ended for a new one, so that two new ones choose different losers.
	making sync.Mutex

	mu sync.Mutex
	// mu guards shares, sites and aside, which counts bytes.
	shares, sites map[netip.Addr]*share
	aside         fair.Tree[*Session]
}

// A share is the memory in others that the sessions of one address, or of one site, use, in bytes. It exists as
// long as the address or the site has a session.
type share struct {
	address netip.Addr
	site    *share // nil for a site
	others  fair.Count
	// The goroutine that frees memory of the share holds relieving.
	relieving sync.Mutex

	sessions int // guarded by the cache's mutex
}

func (c *cache) init(size int64) {
	c.half = size / 2
	c.others.Divide(c.half)
	// Do not allow more sessions than the table of sessions has places for.
	c.aside.Size = min(c.half, chunks*chunkSize*shape{1, 0}.aside())
	c.aside.Floor = shape{1, leastCached}.aside()
	c.shares, c.sites = make(map[netip.Addr]*share), make(map[netip.Addr]*share)
}

// session sets memory aside for the new session s, whose place has its address, and sets its share. It returns the
// shape of the session, which has no more slots than want, and want's size of replies. If too little memory is left for
// the address, it returns the zero shape.
//
// back is true for a client that has opens and no session. It gets a session of one slot as long as any memory is free,
// even if its address has more than its part, because without a session its lease runs out.
func (c *cache) session(s *Session, want shape, back bool) shape {
	from := clientaddr.Of(s.place.Address)
	c.mu.Lock()
	defer c.mu.Unlock()
	// While much memory is free, a session gets all slots it asks for, later fewer: an eighth of what it may
	// borrow is for its slots. Half of the memory is reserved for small sessions, so that later sessions get some.
	spare := c.aside.Spare(&s.place)
	few := min(fewSlots, spare/8/slotCost)
	if c.aside.Within(&s.place, shape{fewSlots, want.cached}.aside()) {
		few = fewSlots
	}
	got := shape{max(1, min(want.slots, int(max(few, (spare-c.aside.Size/4)/8/slotCost)))), want.cached}
	if !c.aside.May(&s.place, got.aside()) {
		got = got.one()
		if n := got.aside(); !c.aside.May(&s.place, n) && !(back && n <= c.aside.Free()) {
			return shape{}
		}
	}
	site := shareIn(c.sites, clientaddr.Site(from), &c.others)
	s.share = shareIn(c.shares, from, &site.others)
	if s.share.site == nil {
		s.share.site = site // other sessions of the address read it without the mutex
	}
	s.place.Of = s
	c.aside.Add(&s.place, got.aside(), 0)
	return got
}

// within reports whether the new session s of a shape lets its address and its site stay within their parts.
func (c *cache) within(s *Session, f shape) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.aside.Within(&s.place, f.aside())
}

// shareIn returns the share of an address or a site for a further session. A new one counts under up.
func shareIn(all map[netip.Addr]*share, of netip.Addr, up *fair.Count) *share {
	s := all[of]
	if s == nil {
		s = &share{address: of}
		s.others.Under(up)
		all[of] = s
	}
	s.sessions++
	return s
}

// endSession subtracts the memory that the method session set aside for a session.
func (c *cache) endSession(s *Session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.aside.Add(&s.place, -s.place.Held(), 0)
	leave(c.shares, s.share)
	leave(c.sites, s.share.site)
}

// takeBack takes the memory that is set aside for s from a session that has not been made yet, or is ending.
// endSession follows.
func (c *cache) takeBack(s *Session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.aside.Add(&s.place, -s.place.Held(), 0)
}

// leave undoes shareIn.
func leave(all map[netip.Addr]*share, s *share) {
	if s.sessions--; s.sessions == 0 {
		delete(all, s.address)
	}
}

// loser returns the session of another address that has to end so that the new session s gets n bytes, and
// the memory that it holds. It returns nil if there is none.
func (c *cache) loser(s *Session, n int64) (v *Session, held int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.aside.Victim(&s.place, n)
	if p == nil || clientaddr.Of(p.Address) == clientaddr.Of(s.place.Address) {
		return nil, 0
	}
	return p.Of, p.Held()
}

// account adds n bytes to the memory that s has of cache.others.
func (c *cache) account(s *share, n int64) { s.others.Add(n) }

// reserve counts n bytes in cache.others, for something other than a reply. It returns false if the
// share has reached its limit.
func (c *cache) reserve(s *share, n int64) bool {
	if c.left(s) < n {
		return false
	}
	c.account(s, n)
	return true
}

// left returns how many more bytes of cache.others the share of an address may use.
func (c *cache) left(s *share) int64 { return max(0, s.others.Room()) }

// slots returns how many of its n slots a session should use, so that its share never reaches its limit in
// cache.others: all until the share has used half of its limit, then fewer. SEQUENCE tells the number to
// the client (sr_target_highest_slotid).
//
// The server does not send CB_RECALL_SLOT (RFC 8881 §20.8): a client that sends requests learns the target
// sooner, with the next reply. For a client that sends nothing, the server keeps the replies that the
// client asked it to cache, and the session, unless makeRoom ends it.
func (c *cache) slots(s *share, n int) int {
	left, held := c.left(s), s.others.Held()
	if left >= held {
		return n
	}
	return max(1, int(int64(n)*left/held))
}

// ample reports whether a share has used no more than half of its limit in cache.others.
func (c *cache) ample(s *share) bool { return c.left(s) >= s.others.Held() }

// holds reports whether a slot of the share that uses n bytes for its reply may use size bytes instead.
func (c *cache) holds(s *share, n, size int) bool { return c.left(s) >= int64(size-n) }

// makeRoom sets memory aside for the new session s, and returns its shape: want, or less if memory is short. If no
// memory is left, makeRoom ends sessions, one after the other. Their clients create new ones and lose no state.
// If one slot with the replies that the client wants is more than the part of the address, or cannot be had, the session
// gets the smallest shape. If that cannot be had either, makeRoom returns the zero shape. back is that of cache.session.
func (m *Minor) makeRoom(s *Session, want shape, back bool) shape {
	if got := m.cache.session(s, want, back); got.slots > 0 {
		return got
	}
	m.cache.making.Lock()
	defer m.cache.making.Unlock()
	if m.cache.within(s, want.one()) {
		if got := m.displace(s, want, back); got.slots > 0 {
			return got
		}
	}
	return m.displace(s, want.smallest(), back)
}

// displace ends sessions until s gets a session of the shape want with one slot or more, which it returns. It returns
// the zero shape if it did not succeed after it has freed twice what one slot needs: then the memory went to others who
// are entitled to it. The caller holds cache.making.
func (m *Minor) displace(s *Session, want shape, back bool) shape {
	for n, freed := want.one().aside(), int64(0); ; {
		if got := m.cache.session(s, want, back); got.slots > 0 {
			return got
		}
		loser, held := m.cache.loser(s, n)
		if loser == nil || freed >= 2*n {
			return shape{}
		}
		freed += held
		if loser.client.displace(loser) {
			loser.end()
		} else {
			m.cache.takeBack(loser)
		}
	}
}

// relieve frees memory of a share, or of its site if that is what limits it, unless another goroutine is doing so: of
// the session whose replies use the most memory, it drops those that the client did not ask the server to cache,
// except in slot 0. If the client repeats the request of a dropped reply, it gets NFS4ERR_RETRY_UNCACHED_REP.
func (m *Minor) relieve(of *share) {
	if !of.relieving.TryLock() {
		return
	}
	defer of.relieving.Unlock()
	ofSite := of.site.others.Room() <= of.others.Room() // the address itself may use more
	var most *Session
	for s := range m.sessions.all {
		if (s.share == of || ofSite && s.share.site == of.site) && (most == nil || s.held.Load() > most.held.Load()) {
			most = s
		}
	}
	if most == nil {
		return
	}
	for i := range most.slots {
		if l := most.slots[i].Load(); l != nil && i > 0 {
			l.drop(0)
		}
	}
}
