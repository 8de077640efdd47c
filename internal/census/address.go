package census

import (
	"net/netip"

	"github.com/nfsrdmad/nfsrdmad/internal/clientaddr"
	"github.com/nfsrdmad/nfsrdmad/internal/queue"
)

// A site is the Census's record of an address prefix (clientaddr.Site). It exists while one of its
// addresses has seats.
type site struct {
	prefix    netip.Addr
	places    [tallies]queue.Place[site]      // in Census.bySite
	addresses [tallies]queue.Ranking[address] // its addresses, by each tally
}

// A tally is a number that the Census keeps of an address, of a site, and of all.
type tally uint8

const (
	ofSeats     tally = iota
	ofStrangers       // seats whose stage is not Known
	ofSetups          // set-ups that are under way

	tallies
)

// in reports whether a seat in the given stage is counted.
func (k tally) in(stage Stage) bool {
	switch k {
	case ofStrangers:
		return stage < Known
	case ofSetups:
		return stage == Arriving
	}
	return stage != gone
}

// An address is the Census's record of a client address. It exists while the address has seats.
type address struct {
	client netip.Addr
	site   *site
	places [tallies]queue.Place[address] // in site.addresses
	// privileged holds its seats whose peers use ports below 1024, and others its other seats.
	privileged, others ports
}

// ports holds those seats of an address whose peers use ports of one kind (privileged or ordinary),
// in one queue for each stage; silent seats are in strangers. In arriving and strangers, the seat
// that entered its stage first comes first. In known, the seat that was used least recently comes
// first.
type ports struct{ arriving, strangers, known seatQueue }

type seatQueue = queue.List[Seat, *Seat]

func (p *ports) n() int { return p.arriving.Len + p.strangers.Len + p.known.Len }

// addressLocked returns the record of a client address. If there is none, it makes one, which
// moveLocked stores when a seat enters.
func (c *Census) addressLocked(client netip.Addr) *address {
	if a := c.addresses[client]; a != nil {
		return a
	}
	prefix := clientaddr.Site(client)
	at := c.sites[prefix]
	if at == nil {
		at = &site{prefix: prefix}
		for k := range at.places {
			at.places[k].Of = at
		}
	}
	a := &address{client: client, site: at}
	for k := range a.places {
		a.places[k].Of = a
	}
	return a
}

// older returns a or b: the seat that entered its stage first. If one of them is nil, older returns
// the other.
func older(a, b *Seat) *Seat {
	if a == nil || b != nil && b.step < a.step {
		return b
	}
	return a
}

// oldestSetup returns the seat of the address a whose set-up has to end so that another set-up can
// begin: the oldest set-up, or nil. It chooses a seat from a privileged port only if a has too many
// of these (manyPrivileged), or no set-ups from other ports.
func (a *address) oldestSetup() *Seat {
	if s := a.others.arriving.First; s != nil && !a.manyPrivileged() {
		return s
	}
	return older(a.privileged.arriving.First, a.others.arriving.First)
}

// Of the seats in p whose stage is not Known, oldestOfLocked returns the one that entered its stage
// first, or nil. If a silent seat's peer has meanwhile sent a message, the seat first moves to the
// stage Stranger, as it would at its deadline, and so becomes the newest there. So newcomers that
// send nothing, however many, take no seat of a peer that communicates.
func (c *Census) oldestOfLocked(p *ports) *Seat {
	s := p.strangers.First
	for s != nil && s.stage == Silent && s.heard.Load() {
		c.speaksLocked(s)
		s = p.strangers.First
	}
	return older(p.arriving.First, s)
}

// manyPrivileged reports whether the address has more than privilegedPlaces seats from privileged
// ports. Then seats from these ports are evicted like others.
func (a *address) manyPrivileged() bool { return a.privileged.n() > privilegedPlaces }

// oldestStrangerLocked returns the seat to evict first among those seats of the address a whose
// stage is not Known. It returns nil if there is none. It considers seats from privileged ports
// only if a has too many of these (manyPrivileged).
func (c *Census) oldestStrangerLocked(a *address) *Seat {
	s := c.oldestOfLocked(&a.others)
	if a.manyPrivileged() {
		s = older(s, c.oldestOfLocked(&a.privileged))
	}
	return s
}

// givesAwayLocked returns the seat of the address a that is evicted for a newcomer of another
// address. The address must have a seat.
func (c *Census) givesAwayLocked(a *address) *Seat {
	for _, s := range []*Seat{c.oldestStrangerLocked(a), c.oldestOfLocked(&a.privileged), a.others.known.First} {
		if s != nil {
			return s
		}
	}
	return a.privileged.known.First
}

// givesItselfLocked returns the seat that is evicted for a newcomer of the same address, or nil if
// there is none. It is the oldest seat whose peer is not known or, without such a seat, that of the
// known peer that has been idle longest, if that is at least leastIdle. A newcomer from an ordinary
// port takes no seat from a privileged port, unless the address has too many of these
// (manyPrivileged). A newcomer from a privileged port may also displace a known peer from an
// ordinary port that is not idle (privilegedPlaces). On Unix only root can use privileged ports. So
// the other users of a client machine cannot keep the mounts of root from getting seats.
func (c *Census) givesItselfLocked(newcomer *Seat) *Seat {
	a, p, now := newcomer.address, newcomer.peer, newcomer.arrived
	if s := c.oldestStrangerLocked(a); s != nil {
		return s
	}
	known := a.others.known.First
	if p.privileged() {
		if a.privileged.n() < privilegedPlaces && known != nil {
			return known
		}
		if s := c.oldestOfLocked(&a.privileged); s != nil {
			return s
		}
	}
	if known.idleLocked(now) {
		return known
	}
	if known = a.privileged.known.First; (p.privileged() || a.manyPrivileged()) && known.idleLocked(now) {
		return known
	}
	return nil
}

// queueFor returns the queue of the address to which the seat s belongs by its port and its stage.
func (a *address) queueFor(s *Seat) *seatQueue {
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
