package gss

import (
	"crypto/rand"
	"iter"
	mathrand "math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/fair"
)

// A table finds contexts by their handles. Its limits are room.Size (all contexts), share (the
// contexts of one client address) and each (the contexts of one principal). If an address or a
// principal has reached its limit, add deletes one of its contexts that was not used for long. If
// the table is full, add deletes a context of the address that has the most, in the site that has the
// most. find takes no lock.
type table struct {
	share, each int
	idle        time.Duration
	contexts    sync.Map // *serverContext by handle

	mu   sync.Mutex
	room fair.Tree[*serverContext] // each context is a holder of one unit
	// principals has the contexts of each principal. serverContext.at is the index in the slice.
	principals map[string][]*serverContext
}

func newTable(most, share, each int, idle time.Duration) *table {
	return &table{
		share: share, each: each, idle: idle,
		room: fair.Tree[*serverContext]{Size: int64(most)}, principals: make(map[string][]*serverContext),
	}
}

// find returns the context with the handle h, or nil.
func (t *table) find(h []byte) *serverContext {
	if len(h) != handleSize {
		return nil
	}
	x, _ := t.contexts.Load(handle(h))
	found, _ := x.(*serverContext)
	return found
}

// add sets the handle of x and adds x to the table. It returns how many contexts it deleted because
// a limit was reached.
func (t *table) add(x *serverContext, peer netip.Addr, now time.Time) (evicted int) {
	x.touch(now)
	rand.Read(x.handle[:]) // rand.Read never fails
	t.mu.Lock()
	defer t.mu.Unlock()
	if own := t.principals[x.principal]; len(own) >= t.each {
		t.dropLocked(idlest(own))
		evicted++
	}
	if int(t.room.AddressHolds(peer)) >= t.share {
		t.evictLocked(func() *fair.Node[*serverContext] { return t.room.First(peer) })
		evicted++
	}
	x.place.Of, x.place.Address, x.seen = x, peer, x.used.Load()
	own := t.principals[x.principal]
	x.at = len(own)
	t.principals[x.principal] = append(own, x)
	t.contexts.Store(x.handle, x)
	if t.room.Add(&x.place, 1, 0); t.room.Free() < 0 {
		t.evictLocked(func() *fair.Node[*serverContext] { return t.room.Victim(nil, 0) })
		evicted++
	}
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

// maxPassed is the largest number of recently used contexts that evictLocked skips, and the number of
// random contexts that idlest compares.
const maxPassed = 64

// evictLocked deletes the context that next returns. If that was used again, it first counts as the
// newest of its address, and next returns another one, at most maxPassed times.
func (t *table) evictLocked(next func() *fair.Node[*serverContext]) {
	x := next().Of
	for n := 0; n < maxPassed && x.usedAgainLocked(); n++ {
		t.room.Add(&x.place, -1, 0)
		t.room.Add(&x.place, 1, 0)
		x = next().Of
	}
	t.dropLocked(x)
}

// remove deletes x. It returns false if x was already deleted.
func (t *table) remove(x *serverContext) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if x.place.Held() == 0 {
		return false
	}
	t.dropLocked(x)
	return true
}

// dropLocked deletes x, which is in the table.
func (t *table) dropLocked(x *serverContext) {
	t.room.Add(&x.place, -1, 0)
	t.contexts.Delete(x.handle)
	own := t.principals[x.principal]
	last := len(own) - 1
	own[x.at], own[last].at = own[last], x.at
	own[last] = nil
	if t.principals[x.principal] = own[:last]; last == 0 {
		delete(t.principals, x.principal)
	}
}

// sweep deletes expired and unused contexts, and returns their number.
func (t *table) sweep(now time.Time) (gone int) {
	for x := range t.all() {
		if x.over(now, t.idle) && t.remove(x) {
			gone++
		}
	}
	return gone
}

// all yields the contexts. It holds no lock, so contexts may come and go meanwhile.
func (t *table) all() iter.Seq[*serverContext] {
	return func(yield func(*serverContext) bool) {
		t.contexts.Range(func(_, x any) bool { return yield(x.(*serverContext)) })
	}
}

// clear deletes all contexts.
func (t *table) clear() {
	for x := range t.all() {
		t.remove(x)
	}
}

func (t *table) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return int(t.room.Held())
}

// handleSize is the length of a handle, in bytes. A handle is random, so that nobody can guess it,
// and so that the server does not know the handles of its earlier runs.
const handleSize = 16

type handle [handleSize]byte

// A serverContext is the server's data of one context. The context is established, or half made: it
// still needs a token of the initiator.
type serverContext struct {
	handle handle
	// acceptor continues the negotiation. It is nil once the context is established.
	acceptor Acceptor

	// These fields are set when the context is established, and constant afterwards.
	ctx       Context
	principal string
	own       string
	mechanism []byte
	expiry    time.Time

	window window
	// used is the time of the context's last use, in seconds since 1970.
	used atomic.Int64
	who  *caller

	// backs has the handles for the server's calls to the context's client.
	backs backs
	// destroyed is true if the client has destroyed the context.
	destroyed atomic.Bool

	// The following fields are data of the table.
	place fair.Node[*serverContext]
	at    int   // index in the table's list of its principal's contexts
	seen  int64 // the value of used when usedAgainLocked was last called
}

// touch sets used to the present time. It loads the old value before it stores, because a store to
// memory that other processors read is slow.
func (x *serverContext) touch(now time.Time) {
	if s := now.Unix(); x.used.Load() != s {
		x.used.Store(s)
	}
}

// usedAgainLocked reports whether x was used since its last call, or since x was added.
func (x *serverContext) usedAgainLocked() bool {
	seen := x.seen
	x.seen = x.used.Load()
	return x.seen != seen
}

// over reports whether the table has to delete x: its ticket has ended, or the time since its last
// use is at least as long as the parameter idle.
func (x *serverContext) over(now time.Time, idle time.Duration) bool {
	return !now.Before(x.expiry) || now.Unix()-x.used.Load() >= int64(idle/time.Second)
}
