package identity

import (
	"net/netip"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/clientaddr"
	"github.com/nfsrdmad/nfsrdmad/internal/fair"
	"github.com/nfsrdmad/nfsrdmad/internal/queue"
	"github.com/nfsrdmad/nfsrdmad/internal/turns"
)

// A member is a user that is remembered or being looked up.
type member struct {
	queue.Links[member] // in the asker's list
	uid                 uint32
	asker               *asker
	answer              *answer // the last answer, or nil
	// failed is the time before which no new look-up starts; zero if the last look-up did not fail.
	failed time.Time
	// asked is the time at which the user was queued for the present look-up; zero if there is none.
	asked   time.Time
	queued  queued
	waiting []waiter
	timer   *time.Timer
}

// A queued is the place of a member in Groups.line. It counts for the asker by, which may be another one than
// member.asker.
type queued struct {
	queue.Links[queued] // in by.queued
	place               turns.Place[any, *queued]
	member              *member
	by                  *asker
}

// A waiter is a waiting call. It counts for its asker (maxWaitingOf). resume continues it.
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

// holds reports whether the answer may be used: until it expires or, if the last look-up failed or the
// present one takes too long, until it is stale.
func (m *member) holds(now time.Time) bool {
	a := m.answer
	return a != nil && (now.Before(a.until) || now.Before(a.stale) && (m.hopeless(now) || !m.failed.IsZero()))
}

// An asker is a client address with waiting calls, or with members: users for which it asked first.
type asker struct {
	client netip.Addr
	// members holds first those without an answer, then the others, the oldest first.
	members queue.List[member, *member]
	queued  queue.List[queued, *queued] // in the order of askLocked
	waiting int

	place, room fair.Node[*asker] // in Groups.places and Groups.memory
}

// oldest returns the member to forget next: the first that is not being looked up, or nil.
func (a *asker) oldest() *member {
	m := a.members.First
	for m != nil && !m.asked.IsZero() {
		m = m.Next
	}
	return m
}

// askerOfLocked returns the asker of a client, and makes it if necessary.
func (g *Groups) askerOfLocked(client netip.Addr) *asker {
	client = clientaddr.Of(client)
	a := g.askers[client]
	if a == nil {
		a = &asker{client: client}
		a.place.Of, a.place.Address = a, client
		a.room.Of, a.room.Address = a, client
		g.askers[client] = a
	}
	return a
}

// dropIdleLocked forgets an asker that has no members, no queued members and no waiting calls.
func (g *Groups) dropIdleLocked(a *asker) {
	if a.members.Len == 0 && a.queued.Len == 0 && a.waiting == 0 {
		delete(g.askers, a.client)
	}
}

// addLocked adds m to the members of the asker a, and forgets others if there are too many.
func (g *Groups) addLocked(m *member, a *asker) {
	if a.members.Len >= maxMembersOf {
		g.removeOldestLocked(a)
	}
	g.members[m.uid] = m
	m.asker = a
	a.members.Push(m)
	g.memory.Add(&a.room, 1, 0)
	g.shrinkLocked()
}

// keepLocked sets the answer of m to x, which may be nil.
func (g *Groups) keepLocked(m *member, x *answer) {
	if m.answer != nil {
		g.numbers -= len(m.answer.groups)
	}
	if m.answer = x; x != nil {
		g.numbers += len(x.groups)
		m.asker.members.Remove(m)
		m.asker.members.Add(m)
		g.shrinkLocked()
	}
}

// shrinkLocked forgets members while there are too many members or groups: those of the asker that has to
// give something back by the rule of package fair.
func (g *Groups) shrinkLocked() {
	for g.memory.Free() < 0 || g.numbers > maxNumbers {
		if !g.removeOldestLocked(g.memory.Victim(nil, 0).Of) {
			return
		}
	}
}

func (g *Groups) removeOldestLocked(a *asker) bool {
	m := a.oldest()
	if m == nil {
		return false
	}
	g.removeLocked(m)
	return true
}

// removeLocked forgets a member that is not being looked up.
func (g *Groups) removeLocked(m *member) {
	g.keepLocked(m, nil)
	delete(g.members, m.uid)
	a := m.asker
	a.members.Remove(m)
	g.memory.Add(&a.room, -1, 0)
	g.dropIdleLocked(a)
}
