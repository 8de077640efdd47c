package gss

import (
	"crypto/rand"
	"encoding/binary"
	"iter"
	mathrand "math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/clientaddr"
)

// chunkSize is the number of slots of a table that are allocated at once.
const chunkSize = 256

type chunk [chunkSize]atomic.Pointer[serverContext]

// A table finds contexts by their handles. Its limits are the fields max (all contexts), share (the
// contexts of one client address) and each (the contexts of one principal). If an address or a
// principal has reached its limit, add deletes one of its contexts that was not used for long. If
// the table is full, add deletes a context of an address that has the most. find takes no lock.
type table struct {
	max, share int
	each       int
	idle       time.Duration
	chunks     []atomic.Pointer[chunk]

	mu      sync.Mutex
	holders map[netip.Addr]*holder
	// principals has the contexts of each principal. serverContext.at is the index in the slice.
	principals map[string][]*serverContext
	ranking    ranking
	count      int
	unused     []uint32 // free slot numbers that were used before
	next       uint32   // the first slot number that was never used
}

func newTable(most, share, each int, idle time.Duration) *table {
	return &table{
		max: most, share: share, each: each, idle: idle,
		chunks:  make([]atomic.Pointer[chunk], (most+chunkSize-1)/chunkSize),
		holders: make(map[netip.Addr]*holder), principals: make(map[string][]*serverContext),
		ranking: newRanking(share),
	}
}

// find returns the context with the handle h, or nil.
func (t *table) find(h []byte) *serverContext {
	if len(h) != handleSize {
		return nil
	}
	place := binary.BigEndian.Uint32(h)
	if place >= uint32(t.max) {
		return nil
	}
	c := t.chunks[place/chunkSize].Load()
	if c == nil {
		return nil
	}
	if x := c[place%chunkSize].Load(); x != nil && x.handle == handle(h) {
		return x
	}
	return nil
}

// add sets the handle of x and adds x to the table. It returns how many contexts it deleted because
// a limit was reached.
func (t *table) add(x *serverContext, peer netip.Addr, now time.Time) (evicted int) {
	x.touch(now)
	rand.Read(x.handle[4:]) // rand.Read never fails
	addr := clientaddr.Of(peer)
	t.mu.Lock()
	defer t.mu.Unlock()
	if own := t.principals[x.principal]; len(own) >= t.each {
		t.drop(idlest(own))
		evicted++
	}
	h := t.holders[addr]
	if h != nil && h.count >= t.share {
		t.evict(h)
		evicted++
	}
	if t.count >= t.max {
		t.makeRoom()
		evicted++
	}
	// If an eviction above has deleted the last context of the holder, it has also removed the
	// holder.
	if h = t.holders[addr]; h == nil {
		h = &holder{addr: addr}
		t.holders[addr] = h
	}
	x.place, x.holder, x.seen = t.takePlace(), h, x.used.Load()
	own := t.principals[x.principal]
	x.at = len(own)
	t.principals[x.principal] = append(own, x)
	h.contexts.Add(x)
	t.ranking.count(h, h.count+1)
	t.count++
	binary.BigEndian.PutUint32(x.handle[:], x.place)
	t.slot(x.place).Store(x)
	return evicted
}

// idlest compares the first context and maxPassed contexts chosen at random, and returns the one
// that was not used for the longest time. It does not compare all contexts, because that would hold
// the lock for too long.
func idlest(all []*serverContext) *serverContext {
	x := all[0]
	for range maxPassed {
		if y := all[mathrand.IntN(len(all))]; y.used.Load() < x.used.Load() {
			x = y
		}
	}
	return x
}

// takePlace returns a free slot number. The caller holds mu, and count is below max.
func (t *table) takePlace() uint32 {
	if n := len(t.unused); n > 0 {
		place := t.unused[n-1]
		t.unused = t.unused[:n-1]
		return place
	}
	t.next++
	return t.next - 1
}

// slot returns the slot with the number place. The caller holds mu.
func (t *table) slot(place uint32) *atomic.Pointer[serverContext] {
	c := t.chunks[place/chunkSize].Load()
	if c == nil {
		c = new(chunk)
		t.chunks[place/chunkSize].Store(c)
	}
	return &c[place%chunkSize]
}

// maxPassed is the largest number of recently used contexts that evict and makeRoom each skip, and
// the number of random contexts that idlest compares.
const maxPassed = 64

// evict deletes a context of h that was not used for long. If the first context in h.contexts was
// used since evict last read its time of use, evict moves it to the end of that list and tries the
// next, at most maxPassed times. The caller holds mu.
func (t *table) evict(h *holder) {
	for range maxPassed {
		x := h.contexts.First
		used := x.used.Load()
		if used == x.seen {
			break
		}
		x.seen = used
		h.contexts.Remove(x)
		h.contexts.Add(x)
	}
	t.drop(h.contexts.First)
}

// makeRoom deletes a context of an address that has the most contexts. If several addresses have
// that number, it prefers one whose first context was not used recently. The caller holds mu.
func (t *table) makeRoom() {
	r := &t.ranking.ranks[t.ranking.most]
	for range maxPassed {
		h := r.First
		x := h.contexts.First
		used := x.used.Load()
		if used == x.seen {
			break
		}
		x.seen = used
		r.Remove(h)
		r.Add(h)
	}
	t.evict(r.First)
}

// remove deletes x. It returns false if x was already deleted.
func (t *table) remove(x *serverContext) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if x.holder == nil {
		return false
	}
	t.drop(x)
	return true
}

// drop deletes x, which is in the table. The caller holds mu.
func (t *table) drop(x *serverContext) {
	h := x.holder
	h.contexts.Remove(x)
	t.ranking.count(h, h.count-1)
	x.holder = nil
	if h.count == 0 {
		delete(t.holders, h.addr)
	}
	t.slot(x.place).Store(nil)
	t.unused = append(t.unused, x.place)
	t.count--
	own := t.principals[x.principal]
	last := len(own) - 1
	own[x.at], own[last].at = own[last], x.at
	own[last] = nil
	if t.principals[x.principal] = own[:last]; last == 0 {
		delete(t.principals, x.principal)
	}
}

// sweep deletes expired and unused contexts, and returns their number. It holds the lock for one
// chunk at a time.
func (t *table) sweep(now time.Time) (gone int) {
	for c := range t.parts() {
		t.mu.Lock()
		for j := range c {
			if x := c[j].Load(); x != nil && x.over(now, t.idle) {
				t.drop(x)
				gone++
			}
		}
		t.mu.Unlock()
	}
	return gone
}

// parts yields the allocated chunks.
func (t *table) parts() iter.Seq[*chunk] {
	return func(yield func(*chunk) bool) {
		for i := range t.chunks {
			if c := t.chunks[i].Load(); c != nil && !yield(c) {
				return
			}
		}
	}
}

// clear deletes all contexts.
func (t *table) clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, h := range t.holders {
		for h.contexts.First != nil {
			t.drop(h.contexts.First)
		}
	}
}

func (t *table) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.count
}
