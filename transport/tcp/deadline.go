package tcp

import (
	"time"
)

// A record must arrive within recordDeadlines times Config.Stall, even if the peer sends steadily.
const recordDeadlines = 10

// deadlines holds the counters of a connection as earlier sweeps found them. The code that serves
// calls reads no clock: the connection only counts, and the sweep compares the counts.
type deadlines struct {
	received, written, records, acked uint64
	input, output, record, ack        time.Time // when received, written, records and acked last changed
	last                              time.Time // the time of the last sweep
}

// sweep ends c if one of its deadlines has passed. It also makes a receiving goroutine that waits
// check again whether it may continue. Only one goroutine calls it.
func (c *conn) sweep(now time.Time) {
	m := &c.mark
	moved := func(seen *uint64, is uint64, since *time.Time) {
		if *seen != is || since.IsZero() {
			*seen, *since = is, now
		}
	}
	doing := c.doing.Load()
	quiet := m.received == c.received.Load()
	still := quiet && m.written == c.out.written.Load() && c.out.queued.Load() == 0
	moved(&m.received, c.received.Load(), &m.input)
	moved(&m.records, c.records.Load(), &m.record)
	moved(&m.written, c.out.written.Load(), &m.output)
	unacked := c.kernel.look(c)
	moved(&m.acked, c.kernel.acked.Load(), &m.ack)
	if unacked == 0 {
		m.ack = now
	}
	if doing == atWork && !m.last.IsZero() {
		// This side is at work, and does not wait for the peer. So the time since the last sweep
		// does not count against the peer: m.record, the time at which the record began, moves
		// forward by that time. It is not set to now, because then a peer that sends one byte
		// between sweeps would never be late.
		m.input, m.record = now, m.record.Add(min(now.Sub(m.last), now.Sub(m.record)))
	}
	m.last = now
	if doing == atWork {
		// The connection may wait until other connections release memory. They do not wake it, so
		// the sweep does (see full).
		c.free()
	}
	if c.out.queued.Load() == 0 {
		m.output = now
	}
	if quiet && doing != insideRec {
		c.look(still && c.stopped.Load())
	}
	switch stall := c.cfg.Stall; {
	case now.Sub(m.output) >= stall:
		c.expire(errStalledOutput)
	case doing == insideRec && now.Sub(m.input) >= stall:
		c.expire(errStalledRecord)
	case doing == insideRec && now.Sub(m.record) >= recordDeadlines*stall:
		c.expire(errSlowRecord)
	case doing == draining && now.Sub(m.ack) >= stall:
		c.expire(errStalledOutput)
	case doing == settling && c.cfg.Unanswered > 0 && now.Sub(m.record) >= c.cfg.Unanswered && !c.leaving.Load():
		c.expire(errUnanswered)
	case doing == betweenRecs && c.cfg.Idle > 0 && now.Sub(m.input) >= c.cfg.Idle &&
		c.inFlight.Load() == 0 && c.caller.idle():
		c.kill(errIdle)
	}
}

// look ends c if the peer has reset the connection. If waits is true, look also ends c if the peer has
// closed its side. Then the receiving goroutine waits for something other than the peer, and nothing has
// moved since the last sweep: it would notice the end of the input only after its wait, and until then
// the calls of a peer that has left would keep what others wait for.
func (c *conn) look(waits bool) {
	switch reset, closed := c.stream.gone(); {
	case reset:
		c.kill(errReset)
	case closed && waits && !c.leaving.Load():
		c.kill(errLeft)
	}
}

// expire ends c and counts it as stalled, unless it has already ended.
func (c *conn) expire(why error) {
	if !c.dead() {
		c.count.stalled.Add(1)
		c.kill(why)
	}
}

// sweepEvery returns the time between two sweeps, which is also the longest time between a deadline
// and the end of the connection.
func sweepEvery(cfg *Config) time.Duration {
	d := cfg.Stall
	for _, other := range [...]time.Duration{cfg.Idle, cfg.Unanswered} {
		if other > 0 {
			d = min(d, other)
		}
	}
	return min(max(d/8, 10*time.Millisecond), 5*time.Second)
}
