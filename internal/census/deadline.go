package census

import "time"

const (
	// pressedSetup is the part of SetupTimeout that a set-up may take while more
	// than half of Setups are under way: one in so many.
	pressedSetup = 5
	// sampleEvery is how often the Census looks which known peers have done
	// something: idle times are exact to that.
	sampleEvery = 10 * time.Second
	// quietPart is the part of Seats that peers which are not known may have for
	// QuietTimeout: one in so many.
	quietPart = 64
)

// limit is how long a seat may stay in a stage; 0 means for ever. c.mu is held, as
// for all that follows but sweep.
func (c *Census) limit(stage Stage) time.Duration {
	switch stage {
	case Arriving:
		if c.ranks[byArriving].total > c.cfg.Setups/2 {
			return c.cfg.SetupTimeout / pressedSetup
		}
		return c.cfg.SetupTimeout
	case Silent:
		// A Silent seat that was heard becomes a Stranger's when this is over:
		// so all of a stage have the same time, and stand in the order in which
		// it ends.
		return c.quiet(c.cfg.FirstTimeout)
	case Stranger:
		if c.cfg.CallTimeout > 0 {
			return c.quiet(max(c.cfg.CallTimeout-c.cfg.FirstTimeout, 1))
		}
	}
	return 0
}

// quiet is a limit of peers that are not known, or QuietTimeout while they are few.
func (c *Census) quiet(limit time.Duration) time.Duration {
	if limit > 0 && c.stages[Silent].n+c.stages[Stranger].n < c.cfg.Seats/quietPart {
		return max(limit, c.cfg.QuietTimeout)
	}
	return limit
}

// arm sets the timer for what comes next.
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

// sweep is the timer's function.
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
	c.end(ends)
	if len(late) > 0 {
		c.endUnlessBusy(late)
	}
}

// sample takes note of which known peers have done something since it did last.
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

// A lateSeat is one whose time is over, unless its holder is busy.
type lateSeat struct {
	seat   *Seat
	holder Holder
	stage  Stage
}

// expire takes those set-ups away whose time is over, and lists the other seats
// for which that is so. They stand at the end of their queues from then on.
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

// endUnlessBusy asks the holders of late seats, and ends those that are not busy.
// The others have the same time once more. c.mu is not held.
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
	c.end(ends)
}
