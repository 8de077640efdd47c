package rpc

import (
	"slices"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/fair"
	"github.com/nfsrdmad/nfsrdmad/internal/queue"
	"github.com/nfsrdmad/nfsrdmad/internal/turns"
)

// A lane has the calls for one resource. It exists as long as it has calls.
type lane struct {
	queue.Links[lane] // links in executor.waiting
	key               any
	line              turns.Line[*Conn, *Call] // it lends workers
	waits             bool                     // the lane is on executor.waiting
	late              int                      // running Turns that are late
	stuck             int                      // stuck workers, while the pace is slowed
}

// lanePlace is an entry in a lane's line (package turns). The line has an entry for each waiting
// call. It also has one for each client address, which counts the running calls of that address.
type lanePlace = turns.Place[*Conn, *Call]

// enqueue queues c in the lane that key names, and returns that lane.
func (x *executor) enqueue(c *Call, key any, now time.Time) *lane {
	st := &c.state
	st.leaves(now)
	if st.worker, st.since = nil, now; st.first.IsZero() {
		st.first = now
	}
	l := x.lanes[key]
	if l == nil {
		if n := len(x.unused); n > 0 {
			l, x.unused = x.unused[n-1], x.unused[:n-1]
		} else {
			l = new(lane)
		}
		l.key, l.stuck = key, 0
		x.lanes[key] = l
	}
	p := &st.place
	p.Value = c
	c.Conn.waitsIn(l)
	l.line.Join(p, c.Conn.client, c.Conn)
	return l
}

// mostLanes is the number of lanes at which Conn.waitsIn first drops those without waiting calls.
const mostLanes = 8

// waitsIn notes that a call of c is about to wait in l. The caller holds executor.mu.
func (c *Conn) waitsIn(l *lane) {
	if slices.Contains(c.lanes, l) {
		return
	}
	if len(c.lanes) >= mostLanes && len(c.lanes) == cap(c.lanes) {
		c.lanes = slices.DeleteFunc(c.lanes, func(l *lane) bool { return !l.line.Waits(c.client, c) })
	}
	c.lanes = append(c.lanes, l)
}

// settle is called after the calls of l have changed. It puts l on the list waiting or takes it off,
// and removes a lane without calls.
func (x *executor) settle(l *lane) {
	queued, running := l.line.Len(), l.line.Held()
	if waits := queued > 0 && running < x.perLane; waits && !l.waits {
		l.waits = true
		x.waiting.Add(l)
	} else if !waits && l.waits {
		l.waits = false
		x.waiting.Remove(l)
	}
	if queued+running == 0 {
		delete(x.lanes, l.key)
		l.key = nil
		x.unused = append(x.unused, l)
	}
}

// may reports whether a lane may have one more worker. The first worker of a lane is always
// allowed, even beyond x.workers, so that stalled lanes never stop another lane. Apart from that,
// lanes share the workers by the rule for units that only their holders give back (fair.Lent). While
// the pace is slowed, the same rule also holds for pace.most instead of x.workers, without the stuck
// workers.
func (x *executor) may(l *lane) bool {
	share := func(most, all, own int) bool {
		return all < most && own < fair.Lent(most, all, own, x.active)
	}
	all, own := x.busy.Len, l.line.Held()
	return own == 0 || share(x.workers, all, own) &&
		(!x.slowed() || share(x.pace.most, all-x.pace.stuck, own-l.stuck))
}

// inLanes returns the statistics of each lane.
func (x *executor) inLanes(now time.Time) []LaneStats {
	x.mu.Lock()
	defer x.mu.Unlock()
	oldest := make(map[*lane]time.Duration)
	for w := x.busy.First; w != nil; w = w.Next {
		oldest[w.lane] = max(oldest[w.lane], now.Sub(w.since))
	}
	all := make([]LaneStats, 0, len(x.lanes))
	for key, l := range x.lanes {
		all = append(all, LaneStats{Lane: key, Running: l.line.Held(), Queued: l.line.Len(), Oldest: oldest[l]})
	}
	return all
}
