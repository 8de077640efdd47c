package census

import (
	"net/netip"
	"time"
)

// nat64 is the well-known prefix under which a translator shows IPv4 clients to
// an IPv6 server (RFC 6052 §2.1).
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// clientPrefix is the length of the prefix that counts as one IPv6 client: a host
// chooses freely among the addresses of its /64 (RFC 7934 §3).
const clientPrefix = 64

// Client is the address that a's connections are counted under: an IPv4 address
// itself, mapped or not; an IPv6 address by its /64. Link-local addresses, which
// all have the same /64, and those of a NAT64 translator, whose /64 is all of
// IPv4, count each for itself.
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

// sitePrefix is the length of the prefix that counts as one IPv6 site: one may have 65,536
// times a /64 (RFC 6177).
const sitePrefix = 48

// siteOf is the site of a client: an IPv6 client's /48. Every other client is a site by
// itself.
func siteOf(client netip.Addr) netip.Addr {
	if p, err := client.Prefix(sitePrefix); err == nil && client.Is6() && !client.IsLinkLocalUnicast() && !nat64.Contains(client) {
		return p.Addr()
	}
	return client
}

// What addresses are ranked by.
const (
	bySeats     = iota // all of a site's seats
	byStrangers        // those of an address that are not a known peer's
	byArriving         // those whose set-up is under way
	inSite             // all of an address's seats, among the addresses of its site
	rankings
)

// An address is what the Census keeps of a client address, as long as that has
// seats.
type address struct {
	client netip.Addr
	site   *site
	counts [rankings]int
	places [rankings]place
	// arriving and strangers are its seats by stage, in the order in which they
	// came to it: strangers are the silent ones, too. privileged and known are the others,
	// by their last use: privileged are those from ports below 1024.
	arriving, strangers, privileged, known queue
}

// A site is the addresses of a prefix. It stands in the ranking by seats for all of them.
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

// oldestStranger is the stranger whose last step to another stage is longest ago,
// or nil. A silent one that was heard meanwhile takes its step now, as it would have at its
// deadline: newcomers that say nothing, however many, take no seat of a peer that goes on.
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

// idlest is the known peer that goes for a newcomer of another address, or nil.
func (a *address) idlest() *Seat {
	if a.known.first != nil {
		return a.known.first
	}
	return a.privileged.first
}

// givesItself is the known peer that goes for a newcomer p of the same address, or nil: the
// one that has been idle for longest, if it is idle. On Unix only root can use privileged
// ports: other users of a machine leave some places to its own mounts.
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

// queueFor is where a seat stands.
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
