package state

import (
	"slices"
	"time"
)

// A waiter is a lock that was denied, and that its owner waits for.
type waiter struct {
	client *Client
	owner  string
	want   byteRange
	tag    any
	// asked is when the owner last wanted it.
	asked time.Time
	// offered: the lock could be had since then, and was kept for the owner until until. It
	// is kept once for each request: an owner that does not come is not waited with again.
	offered bool
	until   time.Time
}

func (w *waiter) size() int { return sizeWaiter + len(w.owner) }

// gaveUp says that w has not asked for a lease: a client that goes on waiting asks again
// meanwhile, called back or not.
func (w *waiter) gaveUp(m *Manager, now time.Time) bool { return now.Sub(w.asked) > m.cfg.Lease }

// lapsed says that w let pass the time for which its lock was kept.
func (w *waiter) lapsed(now time.Time) bool { return w.offered && !now.Before(w.until) }

// A LockNotice says that a lock that was denied could be had now
// (RFC 8881 §20.11).
type LockNotice struct {
	Client *Client
	Owner  string
	// Tag is what LOCK was given.
	Tag any
}

// NotifyLocks has f called, without any mutex held, for each lock that was waited for
// and could be had now. It is called once, before there is any state; the Manager's goroutine
// runs already.
func (m *Manager) NotifyLocks(f func(LockNotice)) { m.files.notify.Store(&f) }

// NotifiesLocks says that clients are told of locks that they wait for.
func (m *Manager) NotifiesLocks() bool { return m.files.notify.Load() != nil }

// queue notes that w waits. One that waits already keeps its place.
func (of *file) queue(m *Manager, w *waiter) {
	now := time.Now()
	for _, other := range of.waiting {
		if other.client == w.client && other.owner == w.owner && other.want == w.want {
			other.asked, other.tag, other.offered = now, w.tag, false
			return
		}
	}
	of.unqueue(m, func(other *waiter) bool { return other.gaveUp(m, now) })
	if !w.client.mayWait(m) || m.crowded(w.client) || len(of.waiting) >= maxFileWaiters && !of.yield(m, w.client, now) {
		return
	}
	w.asked = now
	of.waiting = append(of.waiting, w)
	m.files.usage.waiters++
	m.charge(w.client, w.size())
	h := &w.client.holding
	h.waiters++
	w.client.known.origin.waiters++
	if h.waiting == nil {
		h.waiting = make(map[*file]int)
	}
	h.waiting[of]++
}

// mayWait says whether c may wait for one more lock in all: an address may wait for as many
// as it leaves to others, and a client for as many as it leaves to the others of its address.
// It is called with m.mu held.
func (c *Client) mayWait(m *Manager) bool {
	o := c.known.origin
	free := maxWaiters - m.files.usage.waiters
	return o.waiters < free && c.holding.waiters < (o.waiters+free)/2-o.waiters
}

// yield makes room for a waiter of c in a file where as many wait as may: the latest waiter
// goes of the address that has most, and there of the client that has most, if it has more
// than c would have. It is false where there is none. What is kept for a waiter already stays
// with it.
func (of *file) yield(m *Manager, c *Client, now time.Time) bool {
	byOrigin := make(map[*origin]int)
	for _, w := range of.waiting {
		byOrigin[w.client.known.origin]++
	}
	own := byOrigin[c.known.origin]
	var victim *waiter
	for _, w := range of.waiting {
		o, mine := w.client.known.origin, c.holding.waiting[of]
		if now.Before(w.until) {
			continue
		}
		if o == c.known.origin && w.client.holding.waiting[of] <= mine+1 || o != c.known.origin && byOrigin[o] <= own+1 {
			continue
		}
		if victim == nil {
			victim = w
			continue
		}
		v := victim.client
		if byOrigin[o] > byOrigin[v.known.origin] ||
			o == v.known.origin && w.client.holding.waiting[of] >= v.holding.waiting[of] {
			victim = w
		}
	}
	if victim == nil {
		return false
	}
	of.unqueue(m, func(w *waiter) bool { return w == victim })
	return true
}

// unqueue forgets the waiters that over says it of.
func (of *file) unqueue(m *Manager, over func(w *waiter) bool) {
	of.waiting = slices.DeleteFunc(of.waiting, func(w *waiter) bool {
		if !over(w) {
			return false
		}
		m.files.usage.waiters--
		m.charge(w.client, -w.size())
		h := &w.client.holding
		h.waiters--
		w.client.known.origin.waiters--
		if h.waiting[of]--; h.waiting[of] == 0 {
			delete(h.waiting, of)
		}
		return true
	})
}

// reserved says what keeps r from an owner of c although it is not locked: it is kept for
// an owner that waited before.
func (of *file) reserved(r *byteRange, c *Client, owner string) *Denied {
	if len(of.waiting) == 0 {
		return nil
	}
	now := time.Now()
	for _, w := range of.waiting {
		if w.client == c && w.owner == owner {
			continue
		}
		if now.Before(w.until) && w.want.conflicts(r) {
			return denied(&w.want, w.client.ID, w.owner)
		}
	}
	return nil
}

// released keeps for those who wait what can be had now, in the order in which they came
// and has them told. As many are looked at as maxHindrances lets: first the first waiter of
// each address, then that of each client, then the others, so that a client that waits for
// many locks keeps no other from being told.
func (m *Manager) released(of *file, l *leftovers) {
	if len(of.waiting) == 0 {
		return
	}
	m.files.searches++
	now := time.Now()
	of.unqueue(m, func(w *waiter) bool { return w.gaveUp(m, now) })
	left := maxHindrances
	var turns []int // nil: as they came
	if n := len(of.waiting); n*n > left {
		turns = of.inTurn()
	}
	for i, w := range of.waiting {
		if turns != nil {
			i = turns[i]
			w = of.waiting[i]
		}
		hindered, looks := of.hindered(i, now)
		if left -= looks; left < 0 {
			return
		}
		if w.offered || hindered {
			continue
		}
		w.offered, w.until = true, now.Add(reservation)
		l.notices = append(l.notices, LockNotice{Client: w.client, Owner: w.owner, Tag: w.tag})
	}
}

// inTurn are the places of those who wait: the first of each address, the first of each
// client, and the others, each in the order in which they came.
func (of *file) inTurn() []int {
	origins, clients := make(map[*origin]bool), make(map[*Client]bool)
	firsts, seconds, others := make([]int, 0, len(of.waiting)), []int(nil), []int(nil)
	for i, w := range of.waiting {
		switch o := w.client.known.origin; {
		case !origins[o]:
			firsts = append(firsts, i)
		case !clients[w.client]:
			seconds = append(seconds, i)
		default:
			others = append(others, i)
		}
		origins[w.client.known.origin], clients[w.client] = true, true
	}
	return append(append(firsts, seconds...), others...)
}

// hindered says whether waiter i cannot have its lock, because of a lock, or of one that
// is kept for a waiter before it, and at how many of these it looked.
func (of *file) hindered(i int, now time.Time) (is bool, looks int) {
	w := of.waiting[i]
	of.locked.conflict(&w.want, func(other *lockedRange) bool {
		looks++
		is = other.s.Client != w.client || other.s.Owner.name != w.owner
		return !is
	})
	if is {
		return true, looks
	}
	for _, before := range of.waiting[:i] {
		if (before.client != w.client || before.owner != w.owner) && !before.lapsed(now) && before.want.conflicts(&w.want) {
			return true, looks + i
		}
	}
	return false, looks + i
}
