// Package busypoll lets the goroutine that receives a connection's calls look for the next
// call for some microseconds before it waits in the runtime's poller. A client that makes
// one call at a time sends the next one as soon as it has the reply. To put the goroutine
// to sleep and to wake it, and a processor with it, takes longer than that.
//
// While nothing comes, such looking costs a processor, and while a goroutine looks, the
// runtime may not notice input of other connections: no thread waits in its poller then.
// What bounds both:
//
//   - One connection of a Group polls at a time, and none where the runtime has one processor.
//   - None polls within 2 ms of another connection's input, and one that polls ends when another
//     connection has input, or an Errand begins: those keep processors awake, and may need the
//     one that polls.
//   - Every 100 us a connection that polls yields: its goroutine goes to wait in the runtime's
//     poller as soon as there is input, without reading it. So the wait ends at once, and the
//     runtime has looked for input of all connections.
//   - A connection polls once 4 calls in a row have followed the replies closely, for at most
//     twice as long as they took to follow, and never longer than Config.Most.
//   - A peer that has several calls under way is not polled for: the calls that come while
//     the goroutine wakes up are then served, and answered, together.
//   - A connection whose call did not come in time waits in the runtime's poller for its next
//     calls: for 2 of them, for twice as many after each further time, for 64 at most. Eight
//     calls in time make that 2 again.
//   - Time spent in vain comes out of a credit that the Group has. The credit grows by a
//     sixteenth of the time that passes, to 4 ms. So peers that time their calls such that
//     the process always polls in vain cost it a sixteenth of one processor.
//
// Nothing here allocates, waits, or starts a timer or a goroutine.
package busypoll

import (
	"runtime"
	"sync/atomic"
	"time"
)

const (
	// vainShare is the part of one processor that polling in vain may use: one in so many.
	vainShare = 16
	// mostCredit bounds the time for polling in vain at once.
	mostCredit = 4 * time.Millisecond
	// turn is how long a connection polls before it yields.
	turn = 100 * time.Microsecond
	// quiet is how long no other connection may have had input before a connection polls.
	quiet = 2 * time.Millisecond
	// trusted is how many calls in a row have to follow closely before a connection polls.
	trusted = 4
	// leastPenalty and mostPenalty bound how many calls a connection waits for in the runtime's
	// poller after a call that did not come in time. After redeemed calls in time the penalty is
	// the least again.
	leastPenalty, mostPenalty = 2, 64
	redeemed                  = 8
	// shortest is the least length of a poll without input, because the gaps between calls vary
	// by that much.
	shortest = 10 * time.Microsecond
	// ahead is less than the time that a peer needs to answer a reply with a call.
	ahead = 4 * time.Microsecond
	// wakeUp is the most time that waking up in the runtime's poller adds to a measured gap.
	wakeUp = 100 * time.Microsecond
	// procsFor is how long the number of processors is cached.
	procsFor = 100 * time.Millisecond
)

// Config configures a Group.
type Config struct {
	// Most is the longest poll of a connection; 0: no connection polls.
	Most time.Duration
	// Clock is a monotonic clock. Procs returns the number of the runtime's processors. nil means
	// the real ones.
	Clock func() time.Duration
	Procs func() int
}

// A Group is the shared state of a process's connections. Its methods may be called from any
// goroutine; those of a nil Group do nothing.
type Group struct {
	cfg Config
	// last is the connection that was woken last. changed is the time when another connection
	// than before was woken. errands counts errands that began during a poll.
	last    atomic.Uint64 // its id
	changed atomic.Int64
	errands atomic.Uint32
	members atomic.Uint64 // so far
	// taken: a connection polls. Its goroutine alone uses the fields below.
	taken   atomic.Bool
	credit  time.Duration
	asOf    time.Duration // the clock's time for which credit is right
	procs   int
	procsAt time.Duration

	polls, hits, misses, broken atomic.Uint64
	spent, vain                 atomic.Int64 // ns
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
	// Spent is the total time of all polls, Vain that of polls without input.
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

// Errand notes that a goroutine other than a connection's begins to work.
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
	rested  time.Duration // when it went to wait; 0 once input has come
	gap     time.Duration // smoothed time from a reply to the next call
	trust   int32         // at trusted it polls
	penalty int32
	row     int32 // calls in time since the last late one
	polls   bool
	yields  bool
	began   time.Duration
	until   time.Duration
	errands uint32 // Group.errands at Begin
}

// Join prepares a connection's Member before the goroutine runs.
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

// Rest notes that the goroutine is about to wait in the runtime's poller, or to end. If End was
// not called, Rest calls End(false).
func (m *Member) Rest() {
	if m.polls {
		m.End(false)
	}
	if m.group != nil {
		m.rested = m.group.cfg.Clock()
	}
}

// Came notes that the goroutine found input. Only the first call after Wake counts, because later
// input does not follow the replies before.
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

// Begin reports whether the goroutine, which has no more input, shall poll. alone: the input was
// one call, and no other call of the connection is under way. If Begin returns true, the
// goroutine sends its replies, looks for input while Again returns true, and calls End.
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

// Again reports whether to look for input once more. If the Member does not poll, it is false.
func (m *Member) Again() bool {
	g := m.group
	return m.polls && time.Duration(g.changed.Load()) < m.began && g.errands.Load() == m.errands && g.cfg.Clock() < m.until
}

// End ends the poll. came: there was input, or the connection ended.
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
