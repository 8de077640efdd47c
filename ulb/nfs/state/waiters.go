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
	// until is how long it is kept for him, once it could be had.
	until time.Time
}

func (w *waiter) size() int { return sizeWaiter + len(w.owner) }

// forgotten is how long after its last request a waiter is not waited with any more: a
// client that goes on waiting asks again meanwhile, called back or not.
const forgotten = time.Minute

// A LockNotice says that a lock that was denied could be had now
// (RFC 8881 §20.11).
type LockNotice struct {
	Client *Client
	Key    FileKey
	Owner  string
	// Tag is what LOCK was given.
	Tag any
}

// NotifyLocks has f called, without any mutex held, for each lock that was waited for
// and could be had now. It is called once, before there is any state.
func (m *Manager) NotifyLocks(f func(LockNotice)) { m.files.notify = f }

// NotifiesLocks says that clients are told of locks that they wait for.
func (m *Manager) NotifiesLocks() bool { return m.files.notify != nil }

// queue notes that w waits. One that waits already keeps its place.
func (of *file) queue(m *Manager, w *waiter) {
	now := time.Now()
	for _, other := range of.waiting {
		if other.client == w.client && other.owner == w.owner && other.want == w.want {
			other.asked, other.tag = now, w.tag
			return
		}
	}
	of.unqueue(m, func(other *waiter) bool { return now.Sub(other.asked) > forgotten })
	if len(of.waiting) >= maxFileWaiters || m.files.usage.waiters >= maxWaiters || m.crowded(w.client) {
		return
	}
	w.asked = now
	of.waiting = append(of.waiting, w)
	m.files.usage.waiters++
	m.charge(w.client, w.size())
	h := &w.client.holding
	if h.waiting == nil {
		h.waiting = make(map[*file]int)
	}
	h.waiting[of]++
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
// and has them told.
func (m *Manager) released(of *file, l *leftovers) {
	if len(of.waiting) == 0 {
		return
	}
	m.files.searches++
	now := time.Now()
	of.unqueue(m, func(w *waiter) bool { return now.Sub(w.asked) > forgotten })
	left := maxHindrances
	for i, w := range of.waiting {
		if left -= len(of.locks) + i; left < 0 {
			return
		}
		if now.Before(w.until) || m.hindered(of, i) {
			continue
		}
		w.until = now.Add(reservation)
		l.notices = append(l.notices, LockNotice{Client: w.client, Key: of.key, Owner: w.owner, Tag: w.tag})
	}
}

// hindered says whether waiter i cannot have its lock, because of a lock, or of one that
// is kept for a waiter before it.
func (m *Manager) hindered(of *file, i int) bool {
	w := of.waiting[i]
	for _, s := range of.locks {
		if (s.Client != w.client || s.Owner.name != w.owner) && s.ranges.conflict(&w.want) != nil {
			return true
		}
	}
	for _, before := range of.waiting[:i] {
		if (before.client != w.client || before.owner != w.owner) && before.want.conflicts(&w.want) {
			return true
		}
	}
	return false
}
