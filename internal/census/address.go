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
	// privileged are its seats from ports below 1024, others those from other ports.
	privileged, others ports
}

// ports are the seats of an address from ports of one kind. arriving and strangers are those in
// these stages, in the order of entry; strangers includes silent seats. known are the seats of
// known peers by last use.
type ports struct{ arriving, strangers, known queue }

func (p *ports) n() int { return p.arriving.n + p.strangers.n + p.known.n }

// A site holds the addresses of a prefix. In the ranking by seats it stands for all of them.
type site struct {
	address
	members ranking
}

func newAddress(client netip.Addr, at *site) *address {
	a := &address{client: client, site: at}
	for _, p := range []*ports{&a.privileged, &a.others} {
		p.arriving.by, p.strangers.by, p.known.by = ofAddress, ofAddress, ofAddress
	}
	return a
}

func newSite(prefix netip.Addr) *site {
	s := &site{members: ranking{by: inSite}}
	s.client, s.address.site = prefix, s
	return s
}

// older returns the one of two seats that entered its stage first. A nil seat is none.
func older(a, b *Seat) *Seat {
	if a == nil || b != nil && b.step < a.step {
		return b
	}
	return a
}

// oldestSetup returns the seat whose set-up ends before other set-ups of a, or nil: one from a
// privileged port only if a has too many of these, or no others.
func (a *address) oldestSetup() *Seat {
	if s := a.others.arriving.first; s != nil && !a.manyPrivileged() {
		return s
	}
	return older(a.privileged.arriving.first, a.others.arriving.first)
}

// oldestOf returns the stranger that entered its stage first, or nil. A silent seat that was
// heard meanwhile first moves to the stage Stranger, as it would at its deadline. So newcomers
// that say nothing, however many, take no seat of a peer that communicates.
func (c *Census) oldestOf(p *ports) *Seat {
	s := p.strangers.first
	for s != nil && s.stage == Silent && s.heard.Load() {
		c.move(s, Stranger, time.Now())
		s = p.strangers.first
	}
	return older(p.arriving.first, s)
}

// manyPrivileged reports whether the address has more seats from privileged ports than it keeps for
// them. Then the seats beyond are like those from other ports.
func (a *address) manyPrivileged() bool { return a.privileged.n() > privilegedPlaces }

// oldestStranger returns the stranger of a that loses its seat before other strangers of a, or
// nil: one from a privileged port only if a has too many of these.
func (c *Census) oldestStranger(a *address) *Seat {
	s := c.oldestOf(&a.others)
	if a.manyPrivileged() {
		s = older(s, c.oldestOf(&a.privileged))
	}
	return s
}

// givesAway returns the seat of a that a newcomer of another address gets. a has seats.
func (c *Census) givesAway(a *address) *Seat {
	for _, s := range []*Seat{c.oldestStranger(a), c.oldestOf(&a.privileged), a.others.known.first} {
		if s != nil {
			return s
		}
	}
	return a.privileged.known.first
}

// givesItself returns the seat of a that a newcomer p of a itself gets, or nil: a stranger's, or
// that of the known peer that has been idle longest, if it is idle. On Unix only root can use
// privileged ports. So other users of a machine leave some seats for its own mounts: from the
// moment when a mount connects, not only when the daemon knows it.
func (c *Census) givesItself(a *address, p Peer, now time.Time) *Seat {
	if s := c.oldestStranger(a); s != nil {
		return s
	}
	known := a.others.known.first
	if p.privileged() {
		if a.privileged.n() < privilegedPlaces && known != nil {
			return known
		}
		if s := c.oldestOf(&a.privileged); s != nil {
			return s
		}
	}
	if known.idle(now) {
		return known
	}
	if known = a.privileged.known.first; (p.privileged() || a.manyPrivileged()) && known.idle(now) {
		return known
	}
	return nil
}

// queueFor returns the queue of the address in which a seat waits.
func (a *address) queueFor(s *Seat) *queue {
	p := &a.others
	if s.peer.privileged() {
		p = &a.privileged
	}
	switch s.stage {
	case Arriving:
		return &p.arriving
	case Known:
		return &p.known
	}
	return &p.strangers
}
