package census

// If no seat is left, a newcomer takes one by these rules:
//
//   - If strangers have at least an eighth of the seats, the census takes the address
//     with the most strangers and evicts its oldest stranger: the one that changed its
//     stage longest ago. So a flood of newcomers displaces only newcomers,
//     from however many addresses it comes: it throws out no known peer, and a
//     newcomer has time for a first call in it.
//   - Otherwise it takes the site with the most seats, and in it the address with the most.
//     It evicts that address's oldest stranger; if there is none, its longest idle known
//     peer. So connections that came first lock out no newcomer, idle or not, and newcomers
//     do not have to take each other's seats. A site with many addresses takes no more
//     seats than others, because sites count, not addresses.
//
// The newcomer's own address takes part, as if the newcomer were seated. Where a
// known peer of that address would have to go, it is one that is idle (givesItself); if there
// is none, the newcomer is refused.
//
// The bound for one address comes before that: the newcomer takes the seat of the
// oldest stranger of its own address, or of the known peer that is idle for longest.

// strangersPart is the part of the seats that strangers may have while known peers want seats:
// one in so many.
const strangersPart = 8

// privilegedPlaces is how many connections from privileged ports an address may have that
// newcomers from its other ports do not displace, known or not. Up to this number, a newcomer from
// a privileged port displaces a known peer from another port of its address, even one that is not
// idle.
const privilegedPlaces = 16

// leavingPart and leastLeaving bound the connections that lost their seats and are not closed
// yet: one in leavingPart of Seats, and at least leastLeaving.
const (
	leavingPart  = 32
	leastLeaving = 16
)

// Spare returns how many connections beyond seats may be open for a moment while they are being
// closed. The process must reserve descriptors for them.
func Spare(seats int) int { return max(seats/leavingPart, leastLeaving) }

// makeRoom chooses the seats to end for a newcomer of address a: at most one because of its
// set-up and one because of its seat. Reason 0 means that the newcomer may enter. The caller
// holds c.mu.
func (c *Census) makeRoom(a *address, newcomer *Seat) (losers []*Seat, why Reason) {
	if c.crowded() {
		return nil, Crowded
	}
	own, all := a.counts[inSite], c.ranks[bySeats].total
	if newcomer.stage == Arriving {
		if s := c.endsSetup(a); s != nil {
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
		if s = c.givesItself(a, newcomer.peer, newcomer.arrived); s == nil {
			return nil, AddressFull
		}
	case all >= c.cfg.Seats:
		if s = c.givesSeat(a, newcomer); s == nil {
			return nil, Full
		}
	default:
		return losers, 0
	}
	return append(losers, s), 0
}

// endsSetup returns the seat whose set-up ends to make room for a newcomer's set-up, or nil if
// there is room. No set-up waits for another.
func (c *Census) endsSetup(a *address) *Seat {
	switch arriving := &c.ranks[byArriving]; {
	case a.counts[byArriving] >= max(c.cfg.Setups/2, 1):
		return a.oldestSetup()
	case arriving.total >= c.cfg.Setups:
		return arriving.mostWith(a).oldestSetup()
	}
	return nil
}

// givesSeat chooses the seat to evict for a newcomer of address a. It returns nil if the newcomer
// is refused.
func (c *Census) givesSeat(a *address, newcomer *Seat) *Seat {
	var most *address
	if strangers := &c.ranks[byStrangers]; strangers.total >= max(c.cfg.Seats/strangersPart, 1) {
		most = strangers.mostWith(a)
	} else {
		at := c.ranks[bySeats].mostWith(&a.site.address).site
		if most = at.members.top(); at == a.site {
			most = at.members.mostWith(a)
		}
	}
	if most == a {
		return c.givesItself(a, newcomer.peer, newcomer.arrived)
	}
	return c.givesAway(most)
}

// mostWith returns the address that would have the most seats if a had one more.
func (r *ranking) mostWith(a *address) *address {
	if top := r.top(); top != nil && a.counts[r.by]+1 <= top.counts[r.by] {
		return top
	}
	return a
}
