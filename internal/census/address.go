package census

import "net/netip"

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

// What addresses are ranked by.
const (
	bySeats     = iota // all of an address's seats
	byStrangers        // those that are not a known peer's
	byArriving         // those whose set-up is under way
	rankings
)

// An address is what the Census keeps of a client address, as long as that has
// seats.
type address struct {
	client netip.Addr
	counts [rankings]int
	places [rankings]place
	// arriving and strangers are its seats by stage, in the order in which they
	// came to it: strangers are the silent ones, too. known are the others, by
	// their last use.
	arriving, strangers, known queue
}

func newAddress(client netip.Addr) *address {
	a := &address{client: client}
	for _, q := range []*queue{&a.arriving, &a.strangers, &a.known} {
		q.by = ofAddress
	}
	return a
}

// oldestStranger is the stranger whose last step to another stage is longest ago,
// or nil.
func (a *address) oldestStranger() *Seat {
	s, other := a.arriving.first, a.strangers.first
	if s == nil || other != nil && other.step < s.step {
		return other
	}
	return s
}

// queueFor is where a seat of a stage stands.
func (a *address) queueFor(stage Stage) *queue {
	switch stage {
	case Arriving:
		return &a.arriving
	case Known:
		return &a.known
	}
	return &a.strangers
}
