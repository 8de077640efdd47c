package identity

import (
	"net/netip"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/census"
)

// A member is a user, as long as it is remembered or asked for.
type member struct {
	uid        uint32
	asker      *asker
	prev, next *member // of the asker's members
	// answer is the last one, or nil; failed is until when there is none to be had.
	answer *answer
	failed time.Time
	// asked is since when it is asked for, the time before its turn included; zero: it is
	// not.
	asked   time.Time
	waiting []waiter
	timer   *time.Timer
}

// A waiter is a call that waits, and the address that it is counted for.
type waiter struct {
	asker  *asker
	resume func()
}

// hopeless says that a call had better come again: the last look-up failed, or the one
// that goes on takes too long.
func (m *member) hopeless(now time.Time) bool {
	if !m.asked.IsZero() {
		return now.Sub(m.asked) >= patience
	}
	return now.Before(m.failed)
}

// An asker is a client address, as long as there is something of it: members that were
// asked for for its sake, those that it asks for, or calls that wait.
type asker struct {
	client      netip.Addr
	first, last *member // in the order of their answers
	count       int
	queue       []*member
	waiting     int
}

func (a *asker) push(m *member) {
	m.asker, m.prev, m.next = a, a.last, nil
	if a.last != nil {
		a.last.next = m
	} else {
		a.first = m
	}
	a.last = m
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

// oldest is the member to be forgotten next, or nil: none that is asked for.
func (a *asker) oldest() *member {
	m := a.first
	for m != nil && !m.asked.IsZero() {
		m = m.next
	}
	return m
}

// askerOf finds or makes the asker that a client counts for. g.mu is held, as for all of
// the following.
func (g *Groups) askerOf(client netip.Addr) *asker {
	client = census.Client(client)
	a := g.askers[client]
	if a == nil {
		a = &asker{client: client}
		g.askers[client] = a
	}
	return a
}

// dropIdle forgets an asker of which there is nothing.
func (g *Groups) dropIdle(a *asker) {
	if a.count == 0 && len(a.queue) == 0 && a.waiting == 0 {
		delete(g.askers, a.client)
	}
}

// add remembers m for the sake of a, and forgets another where there is no room.
func (g *Groups) add(m *member, a *asker) {
	if a.count >= maxMembersOf {
		g.removeOldest(a)
	}
	g.members[m.uid] = m
	a.push(m)
	g.shrink()
}

// keep makes x the answer for m, or none.
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

// shrink forgets members while there are too many.
func (g *Groups) shrink() {
	for len(g.members) > maxMembers || g.numbers > maxNumbers {
		if !g.removeOldest(g.largest()) {
			return
		}
	}
}

// sample is how many askers are compared to find one that has many members.
const sample = 8

// largest is an asker with many members.
func (g *Groups) largest() (a *asker) {
	n := 0
	for _, other := range g.askers { // from a place that differs each time
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

// remove forgets a member that is not asked for.
func (g *Groups) remove(m *member) {
	g.keep(m, nil)
	delete(g.members, m.uid)
	a := m.asker
	a.unlink(m)
	g.dropIdle(a)
}
