package nfs41

import (
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/internal/census"
)

// maxCached is the largest reply that a slot keeps, in bytes.
const maxCached = 8 << 10

// What things take in memory, in bytes: a slot beside its reply, a session beside its slots,
// with its first connection and the question whether its client answers, and a further
// connection of it.
const (
	slotCost    = 256
	sessionCost = 2 << 10
	bindingCost = 256
)

// fewSlots is how many a session has that takes little.
const fewSlots = 8

// cache accounts for the memory of sessions, and of replies that are kept. Half of it is set
// aside when a session is made: for itself, its slots, and the reply of the first, so that
// every session always goes on. The other half is for the replies of all further slots, and
// for what comes and goes: further connections, and calls to clients.
//
// Of either half the sessions of one address may have as much as they leave to those of
// others. An address that would have more gets no further session; where it has less than
// half its part even so, sessions of the address end that has most. Where an address would have
// more replies, the session of its that holds most of them loses those that its client did not
// ask for. Those that it asked for stay until it uses the slot again, or fewer slots (RFC 8881
// §2.10.6.1.3): its further requests that ask for it wait, but for those in the first slot.
type cache struct {
	// most is what may be set aside, and half what the rest may take.
	most, half    int64
	aside, others atomic.Int64

	mu     sync.Mutex
	shares map[netip.Addr]*share // guarded by mu
}

// A share is what the sessions of one address have of the memory, in bytes. It exists as
// long as there are such sessions.
type share struct {
	address netip.Addr
	others  atomic.Int64
	// relieving is held by who frees memory of it.
	relieving sync.Mutex

	// What follows is guarded by the cache's mutex.
	aside    int64
	sessions int
}

func (c *cache) init(size int64) {
	c.half = size / 2
	// The table has a place for each session that there is memory for.
	c.most = min(c.half, chunks*chunkSize*asideFor(1, 0))
	c.shares = make(map[netip.Addr]*share)
}

// session sets memory aside for a session of an address, with as many of slots as it gets,
// whose replies are kept up to a size. It returns how many slots that are, and the share
// that endSession gives it back to, or nil where there is none left.
func (c *cache) session(from netip.Addr, slots, size int) (int, *share) {
	from = census.Client(from)
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.shares[from]
	if s == nil {
		s = &share{address: from}
	}
	left := c.most - c.aside.Load() - s.aside
	// All slots as long as there is much memory, and fewer and fewer then; half of it is
	// for sessions with few, so that some is left for those that come later.
	few := min(fewSlots, left/16/slotCost)
	slots = max(1, min(slots, int(max(few, (left-c.most/2)/16/slotCost))))
	n := asideFor(slots, size)
	if left < 2*n { // n for this session, and as much for those of others
		return 0, nil
	}
	c.shares[from] = s
	s.aside += n
	s.sessions++
	c.aside.Add(n)
	return slots, s
}

// endSession gives back what session set aside.
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

// greedy is the share that has most of what is set aside, where that is more than its part,
// and the share of an address has less than half of that; else nil. part is what each would
// have if all had the same, and one more.
func (c *cache) greedy(from netip.Addr) (most *share, part int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	part = c.most / int64(len(c.shares)+1)
	if s := c.shares[census.Client(from)]; s != nil && s.aside >= part/2 {
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

// has is what is set aside for a share.
func (c *cache) has(s *share) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return s.aside
}

// account adds n bytes of replies to what the sessions of a share hold.
func (c *cache) account(s *share, n int64) {
	c.others.Add(n)
	s.others.Add(n)
}

// take takes n bytes of what replies have for something else that a share's sessions need,
// or is false where they have as much as they leave to others.
func (c *cache) take(s *share, n int64) bool {
	if c.left(s) < n {
		return false
	}
	c.account(s, n)
	return true
}

// left is how much more the sessions of a share may hold in replies, and leave as much to
// others.
func (c *cache) left(s *share) int64 {
	return max(0, c.half-c.others.Load()-s.others.Load()) / 2
}

// slots is how many slots a session that has n should use, so that its share is never used
// up: all as long as it has used half, and then fewer and fewer. SEQUENCE tells it to the
// client (sr_target_highest_slotid).
//
// CB_RECALL_SLOT (RFC 8881 §20.8) would tell it to a client that sends nothing at the moment,
// and is not sent: a client that sends has the target with the next answer, sooner than a call
// of its own could come. One that sends nothing keeps the replies that it asked for, within its
// address's share, and its session with them, where that does not end (makeRoom).
func (c *cache) slots(s *share, n int) int {
	left, held := c.left(s), s.others.Load()
	if left >= held {
		return n
	}
	return max(1, int(int64(n)*left/held))
}

// ample says that a share has used less than half of what it may.
func (c *cache) ample(s *share) bool { return c.left(s) >= s.others.Load() }

// holds says whether a slot that has taken n bytes may take size instead.
func (c *cache) holds(s *share, n, size int) bool { return c.left(s) >= int64(size-n) }

// makeRoom ends sessions of the address that has most memory set aside for them, so that
// another address gets one, where that has less than half its part. Their clients make new ones,
// and lose no state. It is false where none ended.
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

// relieve frees memory of a share, where that is not under way already: the session that
// holds most of it loses the replies that were kept for its client unasked, which is told so if
// it ever asks for one of them again.
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
			l.drop(false)
		}
	}
}
