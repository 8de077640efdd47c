package census

import (
	"iter"
	"slices"
	"time"
)

const (
	// pressedSetup is a divisor: while more than half of Setups are under way, a set-up may take
	// only SetupTimeout/pressedSetup.
	pressedSetup = 5
	// sampleEvery is the time between two calls of sampleLocked, which finds out which peers in the
	// stage Known are active. Idle times have this precision.
	sampleEvery = 10 * time.Second
	// quietPart is a divisor: QuietTimeout applies only while fewer than Seats/quietPart seats
	// are in the stages Silent and Stranger together.
	quietPart = 64
	// sweepEvery is the time between two sweeps, and so the longest time between a deadline and the
	// end of the connection.
	sweepEvery = time.Second
)

// limitLocked returns how long a seat may stay in the given stage; 0 means for ever. For a
// Stranger, this includes the time that it was Silent.
func (c *Census) limitLocked(stage Stage) time.Duration {
	switch stage {
	case Arriving:
		if c.stages[Arriving] > c.cfg.Setups/2 {
			return c.cfg.SetupTimeout / pressedSetup
		}
		return c.cfg.SetupTimeout
	case Silent:
		return c.quietLocked(c.cfg.FirstTimeout)
	case Stranger:
		return c.quietLocked(c.cfg.CallTimeout)
	}
	return 0
}

// quietLocked returns how long a seat may stay in the stage Silent or Stranger: limit, or without
// end if limit is 0. While few seats are in these stages (quietPart), a seat may stay for at least
// QuietTimeout.
func (c *Census) quietLocked(limit time.Duration) time.Duration {
	if limit > 0 && c.stages[Silent]+c.stages[Stranger] < c.cfg.Seats/quietPart {
		return max(limit, c.cfg.QuietTimeout)
	}
	return limit
}

// armLocked starts the timer for the next sweep, if there is a seat with a deadline or a known
// peer, and the timer does not run already.
func (c *Census) armLocked() {
	needed := c.stages[Known] > 0
	for stage := range Known {
		needed = needed || c.stages[stage] > 0 && c.limitLocked(stage) > 0
	}
	if needed && c.timer == nil && !c.closed {
		c.timer = time.AfterFunc(sweepEvery, c.sweep)
	}
}

// allLocked returns the seats of all known peers or, if the parameter known is false, all other
// seats. A seat that moves meanwhile is returned once.
func (c *Census) allLocked(known bool) iter.Seq[*Seat] {
	return func(yield func(*Seat) bool) {
		for _, a := range c.addresses {
			queues := []*seatQueue{&a.privileged.arriving, &a.privileged.strangers, &a.others.arriving, &a.others.strangers}
			if known {
				queues = []*seatQueue{&a.privileged.known, &a.others.known}
			}
			for _, q := range queues {
				s := q.First
				for range q.Len {
					next := s.Next
					if !yield(s) {
						return
					}
					s = next
				}
			}
		}
	}
}

// sweep is called by the timer. It ends connections whose deadlines have passed, and takes a sample
// if one is due.
func (c *Census) sweep() {
	c.mu.Lock()
	c.timer = nil
	now := time.Now()
	if now.Sub(c.sampled) >= sampleEvery {
		c.sampleLocked(now)
	}
	late := c.expireLocked(now)
	c.armLocked()
	c.endAndUnlock()
	c.endUnlessBusy(late)
}

// sampleLocked notes which peers in the stage Known used their connections since the last sample,
// and moves their seats to the end of the queues of their addresses.
func (c *Census) sampleLocked(now time.Time) {
	c.sampled = now
	for s := range c.allLocked(true) {
		if s.moved == nil {
			continue
		}
		if is := s.moved.Load(); is != s.seen {
			s.seen, s.since = is, now
			q := s.address.queueFor(s)
			q.Remove(s)
			q.Add(s)
		}
	}
}

// A lateSeat is a seat whose deadline has passed. The Census ends its connection unless Holder.Busy
// returns true.
type lateSeat struct {
	seat   *Seat
	holder Holder
	stage  Stage
}

// expireLocked handles the seats whose deadlines have passed. It takes away the seats of set-ups. It
// gives the other seats a new deadline, and returns them.
func (c *Census) expireLocked(now time.Time) (late []lateSeat) {
	if c.bySite[ofStrangers].Total == 0 {
		return nil
	}
	var limits [Known]time.Duration
	for stage := range limits {
		limits[stage] = c.limitLocked(Stage(stage))
	}
	for s := range c.allLocked(false) {
		if s.stage == Silent && s.heard.Load() {
			c.speaksLocked(s)
		}
		switch limit := limits[s.stage]; {
		case limit <= 0 || now.Sub(s.since) < limit:
		case s.stage == Arriving:
			c.loseLocked(s, SlowSetup)
		default:
			s.since = now
			late = append(late, lateSeat{s, s.holder, s.stage})
		}
	}
	return late
}

// speaksLocked moves a silent seat to the stage Stranger. Its time there began when the set-up
// ended.
func (c *Census) speaksLocked(s *Seat) { c.moveLocked(s, Stranger, s.since) }

// endUnlessBusy calls Busy of the holders of late seats, and ends the connections of those that
// return false. The others may stay until their new deadlines. The caller does not hold c.mu.
func (c *Census) endUnlessBusy(late []lateSeat) {
	late = slices.DeleteFunc(late, func(l lateSeat) bool { return l.holder.Busy() })
	c.mu.Lock()
	for _, l := range late {
		if l.seat.stage != l.stage || l.seat.holder != l.holder {
			continue
		}
		why := NothingServed
		if l.stage == Silent {
			why = NothingHeard
		}
		c.loseLocked(l.seat, why)
	}
	c.armLocked()
	c.endAndUnlock()
}
