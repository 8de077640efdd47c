package census

import (
	"net/netip"
	"time"
)

// nat64 is the well-known prefix under which a translator presents IPv4 clients to an IPv6 server
// (RFC 6052 §2.1).
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// clientPrefix is the length of the prefix that counts as one IPv6 client: a host
// chooses freely among the addresses of its /64 (RFC 7934 §3).
const clientPrefix = 64

// Client returns the address under which a's connections are counted: an IPv4 address itself,
// also if mapped into IPv6; for an IPv6 address its /64. Each link-local address counts by
// itself, because all have the same /64. So does each address of a NAT64 translator, because its
// /64 holds all of IPv4.
func Client(a netip.Addr) netip.Addr {
	a = a.Unmap()
	if !a.Is6() || a.IsLinkLocalUnicast() || nat64.Contains(a) {
		return a
	}
	p, err := a.WithZone("").Prefix(clientPrefix)
	if err != nil {
		return a
	}
	return p.Addr()
}

// sitePrefix is the length of the prefix that counts as one IPv6 site: a site may have 65,536
// prefixes of /64 (RFC 6177).
const sitePrefix = 48

// siteOf returns the site of a client: the /48 of an IPv6 client. Any other client is a site by
// itself.
func siteOf(client netip.Addr) netip.Addr {
	if p, err := client.Prefix(sitePrefix); err == nil && client.Is6() && !client.IsLinkLocalUnicast() && !nat64.Contains(client) {
		return p.Addr()
	}
	return client
}

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
