package nfs41

import (
	"sync"
	"sync/atomic"
)

// maxCached is the largest reply that a slot keeps, in bytes.
const maxCached = 8 << 10

// slotCost is what a slot takes beside its reply, in bytes.
const slotCost = 256

// cache accounts for the memory of replies that are kept. Half of it is set aside when a
// session is made: for its slots, and the reply of the first, so that every session always
// goes on. The other half is for the replies of all further slots. Where that is used up,
// the session that holds most loses its replies.
type cache struct {
	half          int64
	aside, others atomic.Int64
	relieving     sync.Mutex
}

func (c *cache) init(size int64) { c.half = size / 2 }

// session sets memory aside for a session with so many slots, whose replies are kept up to
// a size. It is false where there is none left.
func (c *cache) session(slots, size int) bool {
	n := asideFor(slots, size)
	if c.aside.Add(n) > c.half {
		c.aside.Add(-n)
		return false
	}
	return true
}

func (c *cache) endSession(slots, size int) { c.aside.Add(-asideFor(slots, size)) }

func asideFor(slots, size int) int64 { return int64(slots*slotCost + size) }

// grant is how many slots a session gets that asks for n: all as long as there is much
// memory, and fewer and fewer then, so that some is left for those who come later.
func (c *cache) grant(n int) int {
	free := max(c.half-c.aside.Load(), 0)
	return max(1, min(n, int(free/16/slotCost)))
}

// slots is how many slots a session that has n should use, so that the memory is never
// used up: all as long as half of it is free, and then fewer and fewer.
func (c *cache) slots(n int) int {
	if c.ample() {
		return n
	}
	free := max(c.half-c.others.Load(), 0)
	return max(1, int(int64(n)*free/max(c.half/2, 1)))
}

// ample says that less than half of the memory for further slots is taken.
func (c *cache) ample() bool { return c.others.Load() <= c.half/2 }

// holds says whether a slot that has taken n bytes may take size instead.
func (c *cache) holds(n, size int) bool { return c.others.Load()-int64(n)+int64(size) <= c.half }

// relieve frees memory, where nobody does so already: the session that holds most of it
// loses the replies that were kept for its client, which is told so if it ever asks for
// one of them again.
func (m *Minor) relieve() {
	if !m.cache.relieving.TryLock() {
		return
	}
	defer m.cache.relieving.Unlock()
	var most *Session
	for s := range m.sessions.all {
		if most == nil || s.held.Load() > most.held.Load() {
			most = s
		}
	}
	if most == nil {
		return
	}
	for i := range most.slots {
		if l := most.slots[i].Load(); l != nil && i > 0 {
			l.drop()
		}
	}
}
