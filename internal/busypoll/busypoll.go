// Package busypoll lets the goroutine that receives a connection's calls poll for the next call for
// some microseconds before it waits in the runtime's poller. A client that makes one call at a time
// sends the next one as soon as it has the reply. To put the goroutine to sleep and to wake it
// again, and a processor with it, takes longer.
//
// While no call comes, polling costs a processor. While a goroutine polls, the runtime may also not
// notice input of other connections, because no thread waits in its poller. These rules limit both
// costs:
//
//   - One connection of a Group polls at a time. If the runtime has one processor, none polls.
//   - No connection polls within 2 ms of another connection's input. A poll also ends when another
//     connection has input, or when Errand reports other work: such work keeps processors awake,
//     and may need the processor that polls.
//   - A connection that polls yields every 100 us: as soon as there is input, its goroutine goes to
//     wait in the runtime's poller without reading the input. So the wait ends at once, and the
//     runtime looks for input of all connections.
//   - A connection polls after 4 calls in a row have closely followed the replies before them. It
//     polls for at most twice the smoothed time from a reply to the next call, and never longer
//     than Config.Most.
//   - A connection does not poll if its peer has several calls under way: the calls that come
//     while the goroutine wakes up are then served, and answered, together.
//   - If a call did not come in time, the connection waits in the runtime's poller for its next 2
//     calls. Each further late call doubles that number, up to 64. After 8 calls in time it is 2
//     again.
//   - The time of polls that found nothing is taken from a credit of the Group. The credit grows by
//     a sixteenth of the time that passes, to 4 ms. So peers that time their calls such that the
//     process always polls in vain cost it a sixteenth of one processor.
//
// The functions of this package do not allocate memory, wait, or start timers or goroutines.
package busypoll

import (
	"runtime"
	"sync/atomic"
	"time"
)

const (
	// Polls that find nothing use at most 1/vainShare of one processor's time.
	vainShare = 16
	// mostCredit is the largest credit of a Group, see the package comment.
	mostCredit = 4 * time.Millisecond
	// turn is how long a connection polls before it yields, see the package comment.
	turn = 100 * time.Microsecond
	// quiet is how long no other connection must have had input before a connection may poll.
	quiet = 2 * time.Millisecond
	// trusted is how many calls in a row must have come soon after the reply before them.
	trusted = 4
	// The penalty is the number of calls for which a connection waits in the runtime's poller after a
	// late call. redeemed is the number of calls in time after which it is leastPenalty again.
	leastPenalty, mostPenalty = 2, 64
	redeemed                  = 8
	// shortest is the least time that a poll waits for input. The gaps between calls vary by about as
	// much.
	shortest = 10 * time.Microsecond
	// ahead is the least time that a peer needs to receive a reply and to send its next call.
	ahead = 4 * time.Microsecond
	// A measured gap between a reply and the next call contains up to wakeUp for waking up in the
	// runtime's poller.
	wakeUp = 100 * time.Microsecond
	// procsFor is how long the number of processors is cached.
	procsFor = 100 * time.Millisecond
)

// Config configures a Group.
type Config struct {
	// Most is the longest poll of a connection. If it is 0, no connection polls.
	Most time.Duration
	// Clock returns the time of a monotonic clock. Procs returns the number of the runtime's
	// processors. nil means the real clock and number.
	Clock func() time.Duration
	Procs func() int
}

// A Group is the polling state that the connections of a process share. Its methods may be
// called from any goroutine; those of a nil Group do nothing.
type Group struct {
	cfg Config
	// last is the ID of the connection that was woken last. changed is when this field got its
	// present value. errands is the number of calls of Errand during polls.
	last    atomic.Uint64
	changed atomic.Int64
	errands atomic.Uint32
	members atomic.Uint64 // number of Members so far
	// taken is true while a connection polls. Only that connection's goroutine uses the fields from
	// credit to procsAt.
	taken   atomic.Bool
	credit  time.Duration
	asOf    time.Duration // time at which credit was computed
	procs   int
	procsAt time.Duration

	polls, hits, misses, broken atomic.Uint64
	spent, vain                 atomic.Int64 // in nanoseconds
}

// New returns a Group.
func New(cfg Config) *Group {
	if cfg.Clock == nil {
		began := time.Now()
		cfg.Clock = func() time.Duration { return time.Since(began) }
	}
	if cfg.Procs == nil {
		cfg.Procs = func() int { return runtime.GOMAXPROCS(0) }
	}
	return &Group{cfg: cfg, credit: mostCredit, asOf: cfg.Clock(), procsAt: -procsFor}
}

// Stats are a Group's counters.
type Stats struct {
	// Polls is the sum of Hits (polls that found input), Misses (polls that found none) and
	// Broken (polls given up because the process had other work).
	Polls, Hits, Misses, Broken uint64
	// Spent is the total time of all polls, and Vain the total time of polls that found no input.
	Spent, Vain time.Duration
}

// Stats returns the counts.
func (g *Group) Stats() Stats {
	if g == nil {
		return Stats{}
	}
	return Stats{
		Polls: g.polls.Load(), Hits: g.hits.Load(), Misses: g.misses.Load(), Broken: g.broken.Load(),
		Spent: time.Duration(g.spent.Load()), Vain: time.Duration(g.vain.Load()),
	}
}

// Errand ends the poll that is under way, if any. Every goroutine except the receiving goroutines
// of connections calls Errand when it begins to work.
func (g *Group) Errand() {
	if g != nil && g.taken.Load() {
		g.errands.Add(1)
	}
}

// A Member is a connection in a Group. Its receiving goroutine calls the methods, in the order
//
//	Wake [Came] [Begin [Again...] End] Rest
//
// A part in brackets may come any number of times, or not at all. The zero Member never polls.
type Member struct {
	group   *Group
	id      uint64
	woken   time.Duration // when the goroutine was last woken
	rested  time.Duration // when the goroutine last went to wait; 0 once input has come
	gap     time.Duration // smoothed time from a reply to the next call
	trust   int32         // the constant trusted, less the number of calls in time that are still needed before the connection may poll
	penalty int32
	row     int32 // calls that polls found in time since the last late call
	polls   bool
	yields  bool
	began   time.Duration
	until   time.Duration
	errands uint32 // Group.errands at Begin
}

// Join makes m a Member of g, before the receiving goroutine of its connection runs. If g is nil or
// allows no polls, m never polls.
func (m *Member) Join(g *Group) {
	if g != nil && g.cfg.Most > 0 {
		*m = Member{group: g, id: g.members.Add(1), penalty: leastPenalty}
	}
}

// Wake notes that the goroutine was woken from the runtime's poller.
func (m *Member) Wake() {
	if g := m.group; g != nil {
		m.woken = g.cfg.Clock()
		if g.last.Load() != m.id {
			g.last.Store(m.id)
			g.changed.Store(int64(m.woken))
		}
	}
}

// Rest notes that the goroutine is about to wait in the runtime's poller, or to end. If the
// goroutine still polls, Rest calls End(false).
func (m *Member) Rest() {
	if m.polls {
		m.End(false)
	}
	if m.group != nil {
		m.rested = m.group.cfg.Clock()
	}
}

// Came notes that the goroutine found input. Only the first call of Came after Wake counts, because
// input that is found later says nothing about how fast the peer follows a reply.
func (m *Member) Came() {
	if m.group == nil || m.rested == 0 {
		return
	}
	gap, yielded := m.woken-m.rested, m.yields
	m.rested, m.yields = 0, false
	if yielded {
		return
	}
	if gap > m.group.cfg.Most+wakeUp {
		m.trust = min(m.trust, 0)
		return
	}
	m.learn(gap)
	m.trust = min(m.trust+1, trusted)
}

func (m *Member) learn(gap time.Duration) {
	if m.gap == 0 {
		m.gap = gap
	}
	m.gap += (gap - m.gap) / 8
}

// Begin reports whether the goroutine, which has no more input, has to poll. The parameter alone is
// true if the input was one call, and no other call of the connection is under way. If Begin
// returns true, the goroutine sends its replies, looks for input while Again returns true, and
// calls End.
func (m *Member) Begin(alone bool) bool {
	if !alone {
		m.trust = min(m.trust, 0)
	}
	g := m.group
	if m.trust < trusted || !g.taken.CompareAndSwap(false, true) {
		return false
	}
	now := g.cfg.Clock()
	g.credit = min(g.credit+(now-g.asOf)/vainShare, mostCredit)
	g.asOf = now
	if now-g.procsAt >= procsFor {
		g.procs, g.procsAt = g.cfg.Procs(), now
	}
	length := min(max(2*m.gap, shortest), g.cfg.Most)
	if g.procs < 2 || length > g.credit || now-time.Duration(g.changed.Load()) < quiet {
		g.taken.Store(false)
		return false
	}
	m.polls, m.began, m.until, m.errands = true, now, now+length, g.errands.Load()
	m.yields = now-m.woken > turn
	return true
}

// Polls reports whether Begin returned true and End has not been called since.
func (m *Member) Polls() bool { return m.polls }

// Yields reports whether the goroutine must not read the input that it has found. If so, it calls
// End(true) and Rest, and waits.
func (m *Member) Yields() bool { return m.polls && m.yields }

// Again reports whether the goroutine has to look for input once more. It returns false if
// another connection was woken or Errand was called since the poll began, if the time of the
// poll is over, or if the Member does not poll.
func (m *Member) Again() bool {
	g := m.group
	return m.polls && time.Duration(g.changed.Load()) < m.began && g.errands.Load() == m.errands && g.cfg.Clock() < m.until
}

// End ends the poll. The parameter came is true if the goroutine found input, or the end of the
// connection.
func (m *Member) End(came bool) {
	g := m.group
	m.polls = false
	now := g.cfg.Clock()
	took := now - m.began
	g.polls.Add(1)
	g.spent.Add(int64(took))
	if came {
		g.hits.Add(1)
		m.learn(took)
		if took < ahead {
			m.trust = min(m.trust, 0) // the call was under way before the reply
		}
		if m.row++; m.row >= redeemed {
			m.penalty = leastPenalty
		}
		g.taken.Store(false)
		return
	}
	m.yields = false
	g.vain.Add(int64(took))
	g.credit -= took
	if now < m.until {
		g.broken.Add(1)
	} else {
		g.misses.Add(1)
		m.row, m.trust = 0, trusted-m.penalty
		m.penalty = min(2*m.penalty, mostPenalty)
	}
	g.taken.Store(false)
}
