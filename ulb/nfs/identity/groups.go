package identity

import (
	"context"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/census"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// recentBits is how much of a number tells answers apart that are read without a lock.
const recentBits = 12

// Times and bounds of Groups.
const (
	// patience is how long a call waits for an answer. Clients come again then: those of
	// NFSv3 after some seconds.
	patience = 5 * time.Second
	// failedFor is how long a user is not asked for again whose groups could not be had.
	failedFor = 5 * time.Second
	// lookers is how many users are asked for at a time: fewer than getent is run, so that
	// others have their turn there.
	lookers = 3
	// maxMembers is how many users are remembered, those without an account and those
	// asked for included, and maxMembersOf for the calls of one client address.
	maxMembers, maxMembersOf = 65536, 4096
	// maxNumbers is how many groups are remembered, of all users together.
	maxNumbers = 4 << 20
	// maxQueued is how many users are asked for or wait for that, and maxQueuedOf of one
	// address. Beyond that each address has one place.
	maxQueued, maxQueuedOf = 4096, 64
	// maxWaitingOf is how many calls of one address wait. Others have the rest of its
	// connections to themselves.
	maxWaitingOf = 32
)

// GroupsConfig is where Groups look.
type GroupsConfig struct {
	// Look finds the groups of a user; false: there is none. It may wait, until ctx ends.
	// An error says that it does not know. It is Map.GroupsOf.
	Look func(ctx context.Context, uid uint32) (groups []uint32, ok bool, err error)
	// Age is how long an answer is taken for true, and UnknownAge that there is no such
	// user; 0: DefaultAge, DefaultUnknownAge. Those in use are asked for anew before.
	Age, UnknownAge time.Duration
	// Failed is told of each look-up that failed; it must not block. It may be nil.
	Failed func(uid uint32, err error)
}

// Groups are the groups of users by their numbers, remembered, and looked up in the
// background for calls that may not wait. Its methods may be called from any goroutine,
// and do not block.
//
// Calls ask with the address of their client. Addresses take turns: one that asks for
// many users waits for its own, is remembered no more than its share of them, and no
// goroutine or process is made for it beyond those that serve all.
type Groups struct {
	cfg GroupsConfig
	ctx context.Context
	end context.CancelFunc
	wg  sync.WaitGroup
	// recent are answers by a part of the number, to be read without a lock.
	recent [1 << recentBits]atomic.Pointer[answer]

	mu      sync.Mutex
	members map[uint32]*member
	askers  map[netip.Addr]*asker
	// turns are the askers with users to be asked for.
	turns   []*asker
	numbers int // in all answers
	running int
	// round counts the calls of Forget.
	round  int
	closed bool
	stats  GroupsStats
}

// GroupsStats is what Groups counted.
type GroupsStats struct {
	// Known are the users remembered, Queued those that are asked for or wait for that,
	// Waiting the calls that wait.
	Known, Queued, Waiting int
	// Looked are the look-ups that ended, Failed those of them without an answer, and
	// Delayed the calls that were told to come again.
	Looked, Failed, Delayed uint64
}

// An answer is immutable.
type answer struct {
	uid    uint32
	groups []uint32
	known  bool // there is such a user
	// From renew on it is asked for anew, and from until on it is not good any more.
	renew, until time.Time
}

// NewGroups returns Groups that know nothing yet.
func NewGroups(cfg GroupsConfig) *Groups {
	if cfg.Age == 0 {
		cfg.Age = DefaultAge
	}
	if cfg.UnknownAge == 0 {
		cfg.UnknownAge = DefaultUnknownAge
	}
	if cfg.Failed == nil {
		cfg.Failed = func(uint32, error) {}
	}
	g := &Groups{cfg: cfg, members: make(map[uint32]*member), askers: make(map[netip.Addr]*asker)}
	g.ctx, g.end = context.WithCancel(context.Background())
	return g
}

// Close ends look-ups, and lets calls that wait go on. It returns when none runs.
func (g *Groups) Close() {
	g.mu.Lock()
	g.closed, g.turns = true, nil
	var resume []func()
	for _, m := range g.members {
		resume = append(resume, g.release(m)...)
	}
	g.mu.Unlock()
	g.end()
	for _, f := range resume {
		f()
	}
	g.wg.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	clear(g.members)
	clear(g.askers)
	g.numbers, g.stats.Queued = 0, 0
}

// Forget has the groups of every user looked up anew: they may have changed.
func (g *Groups) Forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.round++
	for _, m := range g.members {
		m.failed = time.Time{}
		if m.asked.IsZero() {
			g.remove(m)
		} else {
			g.keep(m, nil)
		}
	}
	for i := range g.recent {
		g.recent[i].Store(nil)
	}
}

// Stats is what was counted.
func (g *Groups) Stats() GroupsStats {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.stats
	s.Known = len(g.members)
	return s
}

// slot is where the answer for a user is among the recent ones.
func (g *Groups) slot(uid uint32) *atomic.Pointer[answer] {
	return &g.recent[uid*2654435769>>(32-recentBits)] // Fibonacci hashing
}

// remembered is the answer that was read without a lock, or nil.
func (g *Groups) remembered(uid uint32, now time.Time) *answer {
	if a := g.slot(uid).Load(); a != nil && a.uid == uid && now.Before(a.renew) {
		return a
	}
	return nil
}

// Find returns the groups of a user for a call of a client, not to be changed: none for a
// user without an account. The error is a *Wait where they are being looked up, and
// vfs.ErrDelay where that takes too long, has failed, or the client asks for too much.
func (g *Groups) Find(client netip.Addr, uid uint32) ([]uint32, error) {
	now := time.Now()
	if a := g.remembered(uid, now); a != nil {
		return a.groups, nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[uid]
	if m != nil && m.answer != nil && now.Before(m.answer.until) {
		if now.Before(m.answer.renew) {
			g.slot(uid).Store(m.answer)
		} else if m.asked.IsZero() && !now.Before(m.failed) {
			g.ask(client, m, uid, now) // or a later call does
		}
		return m.answer.groups, nil
	}
	if g.mayWait(client, m, now) && (m != nil && !m.asked.IsZero() || g.ask(client, m, uid, now)) {
		return nil, &Wait{g, client, uid}
	}
	g.stats.Delayed++
	return nil, vfs.ErrDelay
}

// Delays says that Find would delay a call for a user, as far as that is known.
func (g *Groups) Delays(uid uint32) bool {
	now := time.Now()
	if g.remembered(uid, now) != nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[uid]
	return m != nil && (m.answer == nil || !now.Before(m.answer.until)) && m.hopeless(now)
}

// mayWait says whether a call of a client may wait for a user's groups. g.mu is held.
func (g *Groups) mayWait(client netip.Addr, m *member, now time.Time) bool {
	a := g.askers[census.Client(client)]
	return !g.closed && (a == nil || a.waiting < maxWaitingOf) && (m == nil || !m.hopeless(now))
}

// A Wait is the error for a call of a user whose groups are being looked up.
type Wait struct {
	g      *Groups
	client netip.Addr
	uid    uint32
}

func (w *Wait) Error() string { return "identity: the groups of a user are being looked up" }

// Await has resume called when Find has another answer, after some seconds at most: on
// any goroutine, perhaps before Await returns. It must not block.
func (w *Wait) Await(resume func()) {
	if !w.g.await(w, resume) {
		resume()
	}
}

func (g *Groups) await(w *Wait, resume func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	now, m := time.Now(), g.members[w.uid]
	if g.closed || m == nil || m.asked.IsZero() || m.hopeless(now) {
		return false
	}
	a := g.askerOf(w.client)
	a.waiting++
	g.stats.Waiting++
	m.waiting = append(m.waiting, waiter{a, resume})
	if m.timer == nil {
		m.timer = time.AfterFunc(patience-now.Sub(m.asked), func() { g.giveUp(m) })
	}
	return true
}

// giveUp lets the calls go on that have waited for a user for too long. The look-up goes
// on as well.
func (g *Groups) giveUp(m *member) {
	g.mu.Lock()
	resume := g.release(m)
	g.mu.Unlock()
	for _, f := range resume {
		f()
	}
}

// release takes away the calls that wait for a user, which are to go on. g.mu is held.
func (g *Groups) release(m *member) (resume []func()) {
	for _, w := range m.waiting {
		w.asker.waiting--
		g.stats.Waiting--
		g.dropIdle(w.asker)
		resume = append(resume, w.resume)
	}
	m.waiting = nil
	if m.timer != nil {
		m.timer.Stop()
		m.timer = nil
	}
	return resume
}

// ask has a user asked for in turn; m is nil where nothing is remembered of it. False: the
// client asks for too much. g.mu is held.
func (g *Groups) ask(client netip.Addr, m *member, uid uint32, now time.Time) bool {
	a := g.askerOf(client)
	// A part of what is left, so that there is something left for the next.
	if share := max((maxQueued-g.stats.Queued)/8, 1); g.closed || len(a.queue) >= min(share, maxQueuedOf) {
		g.dropIdle(a)
		return false
	}
	if m == nil {
		m = &member{uid: uid, asked: now}
		g.add(m, a)
	}
	m.asked = now
	g.stats.Queued++
	if a.queue = append(a.queue, m); len(a.queue) == 1 {
		g.turns = append(g.turns, a)
	}
	if g.running < lookers {
		g.running++
		g.wg.Go(g.look)
	}
	return true
}

// look asks for users, of each address in turn, until there are none.
func (g *Groups) look() {
	for {
		g.mu.Lock()
		m := g.next()
		round := g.round
		g.mu.Unlock()
		if m == nil {
			return
		}
		for {
			groups, ok, err := g.cfg.Look(g.ctx, m.uid)
			resume, again := g.settle(m, groups, ok, err, &round)
			if again {
				continue
			}
			if err != nil && g.ctx.Err() == nil {
				g.cfg.Failed(m.uid, err)
			}
			for _, f := range resume {
				f()
			}
			break
		}
	}
}

// next is the user whose groups are looked up now; nil: the looker ends. g.mu is held.
func (g *Groups) next() *member {
	if len(g.turns) == 0 {
		g.running--
		return nil
	}
	a := g.turns[0]
	g.turns[0] = nil
	g.turns = g.turns[1:]
	m := a.queue[0]
	a.queue[0] = nil
	if a.queue = a.queue[1:]; len(a.queue) > 0 {
		g.turns = append(g.turns, a)
	} else {
		a.queue = nil
		g.dropIdle(a)
	}
	return m
}

// settle notes what came of a look-up that began in a round. again: all was forgotten
// meanwhile.
func (g *Groups) settle(m *member, groups []uint32, ok bool, err error, round *int) (resume []func(), again bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if *round != g.round && !g.closed {
		*round = g.round
		return nil, true
	}
	now := time.Now()
	defer func() { m.asked = time.Time{} }() // until then it is not forgotten
	g.stats.Queued--
	g.stats.Looked++
	if err != nil {
		g.stats.Failed++
		m.failed = now.Add(failedFor)
		return g.release(m), false
	}
	age := g.cfg.Age
	if !ok {
		age, groups = g.cfg.UnknownAge, nil
	}
	next := &answer{m.uid, groups, ok, now.Add(age * 3 / 4), now.Add(age)}
	if was := m.answer; !ok && was != nil && was.known && now.Before(was.until) {
		// A directory that comes back knows nothing at first. The user is asked for again
		// while the answer holds.
		next.groups, next.known, next.until = was.groups, true, was.until
	}
	g.keep(m, next)
	g.slot(m.uid).Store(m.answer)
	return g.release(m), false
}
