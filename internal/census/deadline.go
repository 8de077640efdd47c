package census

import "time"

const (
	// pressedSetup is a divisor: while more than half of Setups are under way, a set-up may take
	// only SetupTimeout/pressedSetup.
	pressedSetup = 5
	// sampleEvery is the time between two calls of sample, which finds out which peers in the stage
	// Known are active. Idle times have this precision.
	sampleEvery = 10 * time.Second
	// quietPart is a divisor: QuietTimeout applies only while fewer than Seats/quietPart seats
	// are in the stages Silent and Stranger together.
	quietPart = 64
)

// limit returns how long a seat may stay in the given stage; 0 means for ever. The caller holds
// c.mu, as for the functions below except sweep and endUnlessBusy.
func (c *Census) limit(stage Stage) time.Duration {
	switch stage {
	case Arriving:
		if c.ranks[byArriving].total > c.cfg.Setups/2 {
			return c.cfg.SetupTimeout / pressedSetup
		}
		return c.cfg.SetupTimeout
	case Silent:
		// A silent seat whose peer has sent a message becomes a Stranger at this deadline, not
		// before. So all seats of a stage have the same limit, and their queue is in the order of
		// their deadlines.
		return c.quiet(c.cfg.FirstTimeout)
	case Stranger:
		if c.cfg.CallTimeout > 0 {
			return c.quiet(max(c.cfg.CallTimeout-c.cfg.FirstTimeout, 1))
		}
	}
	return 0
}

// quiet returns how long a seat may stay in the stage Silent or Stranger: limit, or without end if
// limit is 0. While few seats are in these stages (quietPart), a seat may stay for at least
// QuietTimeout.
func (c *Census) quiet(limit time.Duration) time.Duration {
	if limit > 0 && c.stages[Silent].n+c.stages[Stranger].n < c.cfg.Seats/quietPart {
		return max(limit, c.cfg.QuietTimeout)
	}
	return limit
}

// arm sets the timer for the next deadline or sample, unless it is set for an earlier time already.
func (c *Census) arm() {
	var next time.Time
	sooner := func(t time.Time) {
		if next.IsZero() || t.Before(next) {
			next = t
		}
	}
	for stage := range Known {
		if s, limit := c.stages[stage].first, c.limit(stage); s != nil && limit > 0 {
			sooner(s.since.Add(limit))
		}
	}
	if c.stages[Known].n > 0 {
		sooner(c.sampled.Add(sampleEvery))
	}
	if c.closed || next.IsZero() || !c.wakes.IsZero() && !next.Before(c.wakes) {
		return
	}
	c.wakes = next
	if c.timer == nil {
		c.timer = time.AfterFunc(time.Until(next), c.sweep)
	} else {
		c.timer.Reset(time.Until(next))
	}
}

// sweep is called by the timer. It ends connections whose deadlines have passed, and takes a sample
// if one is due.
func (c *Census) sweep() {
	c.mu.Lock()
	c.wakes = time.Time{}
	now := time.Now()
	if now.Sub(c.sampled) >= sampleEvery {
		c.sample(now)
	}
	ends, late := c.expire(now)
	c.arm()
	c.mu.Unlock()
	c.endSeats(ends)
	if len(late) > 0 {
		c.endUnlessBusy(late)
	}
}

// sample notes which peers in the stage Known used their connections since the last sample, and
// moves their seats to the end of the queues of their addresses.
func (c *Census) sample(now time.Time) {
	c.sampled = now
	for s := c.stages[Known].first; s != nil; s = s.links[ofStage].next {
		if s.moved == nil {
			continue
		}
		if is := s.moved.Load(); is != s.seen {
			s.seen, s.since = is, now
			q := s.address.queueFor(s)
			q.remove(s)
			q.push(s)
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

// expire handles the seats whose deadlines have passed. It takes away the seats of set-ups, and
// returns them in ends. Silent seats become Strangers if a message has come. expire puts the other
// seats at the end of their queues with a new deadline, and returns them in late.
func (c *Census) expire(now time.Time) (ends []ending, late []lateSeat) {
	for stage := range Known {
		limit := c.limit(stage)
		if limit <= 0 {
			continue
		}
		q := &c.stages[stage]
		for n := q.n; n > 0 && q.first != nil && now.Sub(q.first.since) >= limit; n-- {
			s := q.first
			switch {
			case stage == Arriving:
				ends = append(ends, c.lose(s, SlowSetup))
			case stage == Silent && s.heard.Load():
				c.move(s, Stranger, now)
			default:
				q.remove(s)
				s.since = now
				q.push(s)
				late = append(late, lateSeat{s, s.holder, stage})
			}
		}
	}
	return ends, late
}

// endUnlessBusy calls Busy of the holders of late seats, and ends the connections of those that
// return false. The others may stay until their new deadlines. The caller does not hold c.mu.
func (c *Census) endUnlessBusy(late []lateSeat) {
	idle := late[:0]
	for _, l := range late {
		if !l.holder.Busy() {
			idle = append(idle, l)
		}
	}
	var ends []ending
	c.mu.Lock()
	for _, l := range idle {
		if l.seat.address == nil || l.seat.stage != l.stage || l.seat.holder != l.holder {
			continue
		}
		why := NothingServed
		if l.stage == Silent && !l.seat.heard.Load() {
			why = NothingHeard
		}
		ends = append(ends, c.lose(l.seat, why))
	}
	c.arm()
	c.mu.Unlock()
	c.endSeats(ends)
}
