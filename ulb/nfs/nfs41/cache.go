package nfs41

import (
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/internal/clientaddr"
)

// maxCached is the size of the largest reply that a slot keeps, in bytes.
const maxCached = 8 << 10

// Memory in bytes. slotCost is the memory of a slot without its reply. sessionCost is that of a
// session without its slots; it includes the first connection and one CB_NULL. bindingCost is that
// of each further connection.
const (
	slotCost    = 256
	sessionCost = 2 << 10
	bindingCost = 256
)

// fewSlots is the number of slots that a new session may still get when half of the memory for
// sessions is in use: see session.
const fewSlots = 8

// cache accounts for the memory of sessions and of stored replies. One half of it is set aside (aside)
// when a session is created: for the session, its slots, and the reply of slot 0, which therefore always
// works. The other half (others) is for the replies of all other slots, for further connections, and for
// calls to clients.
//
// In each half, the sessions of one address may use at most half of what other addresses leave free. An
// address beyond that gets no new session. If such an address has less than half its fair share, the
// server ends sessions of the address that has the most. If the replies of an address reach the limit, the
// session whose replies use the most memory loses those that the client did not ask the server to cache.
// The others stay until the client uses the slot again, or uses fewer slots (RFC 8881 §2.10.6.1.3). Until
// then, further requests that ask for a cached reply get NFS4ERR_DELAY, except in slot 0.
type cache struct {
	// most is the limit of aside, and half is the limit of others, in bytes. aside is the memory
	// set aside for sessions. others is the memory in use beyond that.
	most, half    int64
	aside, others atomic.Int64

	mu     sync.Mutex
	shares map[netip.Addr]*share // guarded by mu
}

// A share is the memory that the sessions of one address use, in bytes. It exists as long as
// the address has a session.
type share struct {
	address netip.Addr
	others  atomic.Int64
	// The goroutine that frees memory of the share holds relieving.
	relieving sync.Mutex

	// The cache's mutex guards the fields below.
	aside    int64
	sessions int
}

func (c *cache) init(size int64) {
	c.half = size / 2
	// Do not allow more sessions than the table of sessions has places for.
	c.most = min(c.half, chunks*chunkSize*asideFor(1, 0))
	c.shares = make(map[netip.Addr]*share)
}

// session sets memory aside for a new session of the address from, which wants this number of slots, and
// for one reply of size bytes. It returns the number of slots that the session gets, and the share to pass
// to endSession, which is nil if too little memory is left for the address.
func (c *cache) session(from netip.Addr, slots, size int) (int, *share) {
	from = clientaddr.Of(from)
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.shares[from]
	if s == nil {
		s = &share{address: from}
	}
	left := c.most - c.aside.Load() - s.aside
	// While much memory is free, a session gets all slots it asks for, later fewer. Half of
	// the memory is reserved for small sessions, so that later sessions get some.
	few := min(fewSlots, left/16/slotCost)
	slots = max(1, min(slots, int(max(few, (left-c.most/2)/16/slotCost))))
	n := asideFor(slots, size)
	if left < 2*n { // n for this session, and n left for other addresses
		return 0, nil
	}
	c.shares[from] = s
	s.aside += n
	s.sessions++
	c.aside.Add(n)
	return slots, s
}

// endSession subtracts the memory that the method session set aside for a session.
func (c *cache) endSession(s *share, slots, size int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := asideFor(slots, size)
	c.aside.Add(-n)
	s.aside -= n
	if s.sessions--; s.sessions == 0 {
		delete(c.shares, s.address)
	}
}

func asideFor(slots, size int) int64 { return int64(sessionCost + slots*slotCost + size) }

// greedy returns the share with the most memory set aside, of which makeRoom ends sessions, because the
// address from wants a new one. part is the fair share in c.most, in bytes: an equal part for each address
// with sessions, and one for a new address. The share is nil if none has more than part, or that of from
// has at least half of it.
func (c *cache) greedy(from netip.Addr) (most *share, part int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	part = c.most / int64(len(c.shares)+1)
	if s := c.shares[clientaddr.Of(from)]; s != nil && s.aside >= part/2 {
		return nil, part
	}
	for _, s := range c.shares {
		if most == nil || s.aside > most.aside {
			most = s
		}
	}
	if most == nil || most.aside <= part {
		return nil, part
	}
	return most, part
}

// has returns the memory set aside for a share, in bytes.
func (c *cache) has(s *share) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return s.aside
}

// account adds n bytes to the memory counted in cache.others and share.others.
func (c *cache) account(s *share, n int64) {
	c.others.Add(n)
	s.others.Add(n)
}

// reserve counts n bytes in cache.others, for something other than a reply. It returns false if the
// share has reached its limit.
func (c *cache) reserve(s *share, n int64) bool {
	if c.left(s) < n {
		return false
	}
	c.account(s, n)
	return true
}

// left returns how many more bytes of cache.others a share may use.
func (c *cache) left(s *share) int64 {
	return max(0, c.half-c.others.Load()-s.others.Load()) / 2
}

// slots returns how many of its n slots a session should use, so that its share never reaches its limit in
// cache.others: all until the share has used half of its limit, then fewer. SEQUENCE tells the number to
// the client (sr_target_highest_slotid).
//
// The server does not send CB_RECALL_SLOT (RFC 8881 §20.8): a client that sends requests learns the target
// sooner, with the next reply. For a client that sends nothing, the server keeps the replies that the
// client asked it to cache, and the session, unless makeRoom ends it.
func (c *cache) slots(s *share, n int) int {
	left, held := c.left(s), s.others.Load()
	if left >= held {
		return n
	}
	return max(1, int(int64(n)*left/held))
}

// ample reports whether a share has used no more than half of its limit in cache.others.
func (c *cache) ample(s *share) bool { return c.left(s) >= s.others.Load() }

// holds reports whether a slot of the share that uses n bytes for its reply may use size bytes instead.
func (c *cache) holds(s *share, n, size int) bool { return c.left(s) >= int64(size-n) }

// makeRoom makes room for a new session of the address from. It ends sessions of the address that has the
// most memory set aside (see greedy), those with the most slots first, until that address has its fair
// share. Their clients create new ones and lose no state. makeRoom returns false if no session ended.
func (m *Minor) makeRoom(from netip.Addr) (ended bool) {
	most, part := m.cache.greedy(from)
	if most == nil {
		return false
	}
	var all []*Session
	for s := range m.sessions.all {
		if s.share == most {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b *Session) int { return len(b.slots) - len(a.slots) })
	for _, s := range all {
		if m.cache.has(most) <= part {
			break
		}
		if s.client.part(s) {
			s.end()
			ended = true
		}
	}
	return ended
}

// relieve frees memory of a share, unless another goroutine is doing so: of the session whose replies use
// the most memory, it drops those that the client did not ask the server to cache, except in slot 0. If
// the client repeats the request of a dropped reply, it gets NFS4ERR_RETRY_UNCACHED_REP.
func (m *Minor) relieve(of *share) {
	if !of.relieving.TryLock() {
		return
	}
	defer of.relieving.Unlock()
	var most *Session
	for s := range m.sessions.all {
		if s.share == of && (most == nil || s.held.Load() > most.held.Load()) {
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
