package census

import (
	"net/netip"
	"time"
)

// Rankings of addresses, by the number of seats of a kind.
const (
	bySeats     = iota // all seats of a site
	byStrangers        // seats of an address that are not a known peer's
	byArriving         // seats of an address whose set-up is under way
	inSite             // all of an address's seats, among the addresses of its site
	rankings
)

// An address is the Census's record of a client address. It exists while the address has seats.
type address struct {
	client netip.Addr
	site   *site
	counts [rankings]int
	places [rankings]place
	// arriving and strangers are its seats in those stages, in the order of entry; strangers
	// includes silent seats. privileged and known are the seats of known peers by last use:
	// privileged of those with ports below 1024.
	arriving, strangers, privileged, known queue
}

// A site holds the addresses of a prefix. In the ranking by seats it stands for all of them.
type site struct {
	address
	members ranking
}

func newAddress(client netip.Addr, at *site) *address {
	a := &address{client: client, site: at}
	for _, q := range []*queue{&a.arriving, &a.strangers, &a.privileged, &a.known} {
		q.by = ofAddress
	}
	return a
}

func newSite(prefix netip.Addr) *site {
	s := &site{members: ranking{by: inSite}}
	s.client, s.address.site = prefix, s
	return s
}

// oldestStranger returns the stranger that entered its stage first, or nil. A silent seat that
// was heard meanwhile first moves to the stage Stranger, as it would at its deadline. So
// newcomers that say nothing, however many, take no seat of a peer that communicates.
func (c *Census) oldestStranger(a *address) *Seat {
	s, other := a.arriving.first, a.strangers.first
	for other != nil && other.stage == Silent && other.heard.Load() {
		c.move(other, Stranger, time.Now())
		other = a.strangers.first
	}
	if s == nil || other != nil && other.step < s.step {
		return other
	}
	return s
}

// idlest returns the known peer that gives its seat to a newcomer of another address, or nil.
func (a *address) idlest() *Seat {
	if a.known.first != nil {
		return a.known.first
	}
	return a.privileged.first
}

// givesItself returns the known peer that gives its seat to a newcomer p of the same address, or
// nil: the one that has been idle longest, if it is idle. On Unix only root can use privileged
// ports; so other users of a machine leave some seats for its own mounts.
func (a *address) givesItself(p Peer, now time.Time) *Seat {
	known, privileged := a.known.first, a.privileged.first
	switch {
	case p.privileged() && a.privileged.n < privilegedPlaces && known != nil, known.idle(now):
		return known
	case (p.privileged() || a.privileged.n > privilegedPlaces) && privileged.idle(now):
		return privileged
	}
	return nil
}

// queueFor returns the queue of the address in which a seat waits.
func (a *address) queueFor(s *Seat) *queue {
	switch {
	case s.stage == Arriving:
		return &a.arriving
	case s.stage != Known:
		return &a.strangers
	case s.peer.privileged():
		return &a.privileged
	}
	return &a.known
}
