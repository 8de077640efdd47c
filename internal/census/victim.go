package census

import "github.com/nfsrdmad/nfsrdmad/internal/queue"

// If no seat is free, a newcomer takes one by these rules. A stranger is here a seat in any stage
// before Known.
//
//   - If strangers have at least an eighth of the seats, the Census takes the site with the most
//     strangers, and in it the address with the most. It evicts that address's oldest stranger: the
//     one that changed its stage longest ago. So a flood of newcomers, from however many addresses,
//     displaces only newcomers and no known peer. And a newcomer has time for a first call before
//     a flood of many sites displaces it.
//   - Otherwise it takes the site with the most seats, and in it the address with the most. It
//     evicts that address's oldest stranger; if there is none, its longest idle known peer. So the
//     connections that came first, idle or not, do not lock out newcomers, and newcomers do not
//     have to take each other's seats.
//
// A site with many addresses gets no more than others, because each rule compares sites before
// addresses (mostLocked).
//
// Within an address, strangers from ordinary ports are evicted before strangers from privileged
// ports (below 1024), and known peers from ordinary ports before those from privileged ports. But
// if the address has more than privilegedPlaces seats from privileged ports, its oldest stranger
// is evicted, whatever its port. In both rules the newcomer's own address counts as if the
// newcomer had a seat already. If the rule chooses that address, givesItselfLocked chooses the seat: a
// stranger's, otherwise that of an idle known peer. If there is none, the newcomer is refused.
//
// The rule of package fair does not apply, because the stage of a seat counts before its site and its address, and
// each newcomer asks for a single seat: parts, and units lent beyond them, have no meaning here.
//
// The limit for one address (Config.PerAddress) comes before these rules: at this limit, a newcomer
// takes a seat of its own address, which givesItselfLocked chooses, or is refused.

// strangersPart is a divisor: while the stage of at least Seats/strangersPart seats is not Known,
// newcomers take only such seats.
const strangersPart = 8

// privilegedPlaces is the number of seats from privileged ports (below 1024) that an address keeps,
// whether the peers are known or not: newcomers from ordinary ports of the same address do not
// displace them. While the address has fewer of them, a newcomer from a privileged port may
// displace a known peer from an ordinary port of the same address, even if that peer is not idle.
const privilegedPlaces = 16

// leavingPart and leastLeaving limit the number of connections that lost their seats and are not
// closed yet: it may be Seats/leavingPart, or leastLeaving if that is more.
const (
	leavingPart  = 32
	leastLeaving = 16
)

// Spare returns how many connections that lost their seats may still be open. seats is
// Config.Seats. The process must reserve descriptors for these connections as well.
func Spare(seats int) int { return max(seats/leavingPart, leastLeaving) }

// makeRoomLocked chooses the seats to take away for a newcomer that enters in the given stage: at
// most one to make room for its set-up, and one to make room for its seat. If why is 0, the newcomer
// may enter; otherwise why is the reason to refuse it.
func (c *Census) makeRoomLocked(newcomer *Seat, stage Stage) (losers []*Seat, why Reason) {
	if c.crowdedLocked() {
		return nil, Crowded
	}
	a := newcomer.address
	own, all := a.places[ofSeats].Count, c.bySite[ofSeats].Total
	if stage == Arriving {
		if s := c.endsSetupLocked(a); s != nil {
			losers = append(losers, s)
			all--
			if s.address == a {
				own--
			}
		}
	}
	var s *Seat
	switch {
	case own >= c.cfg.PerAddress:
		if s = c.givesItselfLocked(newcomer); s == nil {
			return nil, AddressFull
		}
	case all >= c.cfg.Seats:
		if s = c.givesSeatLocked(newcomer); s == nil {
			return nil, Full
		}
	default:
		return losers, 0
	}
	return append(losers, s), 0
}

// endsSetupLocked returns the seat whose set-up the Census ends to make room for a newcomer's
// set-up, or nil if there is room.
func (c *Census) endsSetupLocked(a *address) *Seat {
	switch {
	case a.places[ofSetups].Count >= max(c.cfg.Setups/2, 1):
		return a.oldestSetup()
	case c.bySite[ofSetups].Total >= c.cfg.Setups:
		return c.mostLocked(ofSetups, a).oldestSetup()
	}
	return nil
}

// givesSeatLocked chooses the seat to evict for a newcomer. It returns nil if the newcomer is
// refused.
func (c *Census) givesSeatLocked(newcomer *Seat) *Seat {
	by := ofSeats
	if c.bySite[ofStrangers].Total >= max(c.cfg.Seats/strangersPart, 1) {
		by = ofStrangers
	}
	most := c.mostLocked(by, newcomer.address)
	if most == newcomer.address {
		return c.givesItselfLocked(newcomer)
	}
	return c.givesAwayLocked(most)
}

// mostLocked returns the address with the largest tally k in the site with the largest, if those of a
// newcomer's address a and of its site were one more.
func (c *Census) mostLocked(k tally, a *address) *address {
	if at := mostWith(&c.bySite[k], &a.site.places[k]); at != a.site {
		return at.addresses[k].Top().Of
	}
	return mostWith(&a.site.addresses[k], &a.places[k])
}

// mostWith returns the element of r with the largest count, if the count of p were one more. Among
// equals, it prefers another element than that of p.
func mostWith[T any](r *queue.Ranking[T], p *queue.Place[T]) *T {
	if top := r.Top(); top != nil && p.Count+1 <= top.Count {
		return top.Of
	}
	return p.Of
}
