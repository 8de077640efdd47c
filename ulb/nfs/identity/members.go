package identity

import (
	"net/netip"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/clientaddr"
)

// A member is a user that is remembered or being looked up.
type member struct {
	uid        uint32
	asker      *asker
	prev, next *member // neighbours in the asker's list
	// answer is the last answer, or nil. If the last look-up failed, failed is the time before
	// which no new look-up starts; otherwise it is zero.
	answer *answer
	failed time.Time
	// asked is the time at which the user was queued for the look-up that is not finished
	// yet; zero if there is none.
	asked   time.Time
	waiting []waiter
	timer   *time.Timer
}

// A waiter is a waiting call. It counts for the limit maxWaitingOf of its asker. resume continues
// the call.
type waiter struct {
	asker  *asker
	resume func()
}

// hopeless reports whether a call should not wait for the user: the last look-up failed less than
// failedFor ago, or the present one has already taken the time patience or longer.
func (m *member) hopeless(now time.Time) bool {
	if !m.asked.IsZero() {
		return now.Sub(m.asked) >= patience
	}
	return now.Before(m.failed)
}

// holds reports whether the answer may be used. An expired answer may be used until it is stale, if
// the last look-up failed or the present one takes too long.
func (m *member) holds(now time.Time) bool {
	a := m.answer
	return a != nil && (now.Before(a.until) || now.Before(a.stale) && (m.hopeless(now) || !m.failed.IsZero()))
}

// An asker is a client address that has remembered members, queued members, or waiting calls. A
// member belongs to the asker whose call first asked for the user.
type asker struct {
	client      netip.Addr
	first, last *member // list of members: first those without an answer, then the others, the oldest first
	count       int
	queue       []*member
	waiting     int
}

// push inserts m into the list: at the end if it has an answer, else at the start.
func (a *asker) push(m *member) {
	m.asker, m.prev, m.next = a, a.last, nil
	if m.answer == nil {
		m.prev, m.next = nil, a.first
	}
	if m.prev != nil {
		m.prev.next = m
	} else {
		a.first = m
	}
	if m.next != nil {
		m.next.prev = m
	} else {
		a.last = m
	}
	a.count++
}

func (a *asker) unlink(m *member) {
	if m.prev != nil {
		m.prev.next = m.next
	} else {
		a.first = m.next
	}
	if m.next != nil {
		m.next.prev = m.prev
	} else {
		a.last = m.prev
	}
	m.prev, m.next = nil, nil
	a.count--
}

// oldest returns the member to forget next: the first that is not being looked up, or nil.
func (a *asker) oldest() *member {
	m := a.first
	for m != nil && !m.asked.IsZero() {
		m = m.next
	}
	return m
}

// askerOf returns the asker of a client, and makes it if necessary. g.mu is held, here and in all
// functions below in this file.
func (g *Groups) askerOf(client netip.Addr) *asker {
	client = clientaddr.Of(client)
	a := g.askers[client]
	if a == nil {
		a = &asker{client: client}
		g.askers[client] = a
	}
	return a
}

// dropIdle forgets an asker that has no members, no queued members and no waiting calls.
func (g *Groups) dropIdle(a *asker) {
	if a.count == 0 && len(a.queue) == 0 && a.waiting == 0 {
		delete(g.askers, a.client)
	}
}

// add adds m to the members of the asker a. If the asker or g has too many members, add forgets
// others.
func (g *Groups) add(m *member, a *asker) {
	if a.count >= maxMembersOf {
		g.removeOldest(a)
	}
	g.members[m.uid] = m
	a.push(m)
	g.shrink()
}

// keep sets the answer of m to x, which may be nil.
func (g *Groups) keep(m *member, x *answer) {
	if m.answer != nil {
		g.numbers -= len(m.answer.groups)
		g.slot(m.uid).CompareAndSwap(m.answer, nil)
	}
	if m.answer = x; x != nil {
		g.numbers += len(x.groups)
		m.asker.unlink(m)
		m.asker.push(m)
		g.shrink()
	}
}

// shrink forgets members while there are too many members or groups.
func (g *Groups) shrink() {
	for len(g.members) > maxMembers || g.numbers > maxNumbers {
		if !g.removeOldest(g.largest()) {
			return
		}
	}
}

// sample is the number of askers that largest compares.
const sample = 8

// largest returns an asker with many members: the largest of a random sample.
func (g *Groups) largest() (a *asker) {
	n := 0
	for _, other := range g.askers { // Go iterates over a map from a random place
		if a == nil || other.count > a.count {
			a = other
		}
		if n++; n == sample {
			break
		}
	}
	return a
}

func (g *Groups) removeOldest(a *asker) bool {
	m := a.oldest()
	if m == nil {
		return false
	}
	g.remove(m)
	return true
}

// remove forgets a member that is not being looked up.
func (g *Groups) remove(m *member) {
	g.keep(m, nil)
	delete(g.members, m.uid)
	a := m.asker
	a.unlink(m)
	g.dropIdle(a)
}
