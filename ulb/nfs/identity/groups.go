package identity

import (
	"cmp"
	"context"
	"net/netip"
	"sync"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/clientaddr"
	"github.com/nfsrdmad/nfsrdmad/internal/fair"
	"github.com/nfsrdmad/nfsrdmad/internal/turns"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Times and limits of Groups.
const (
	// patience is how long a call waits for the groups of its user. After that, the server tells the
	// client to repeat the call; NFSv3 clients do so after some seconds.
	patience = 5 * time.Second
	// failedFor is the time until Groups or a Map looks up again after a look-up that failed.
	failedFor = 5 * time.Second
	// staleFor is how long Find uses the groups of a user while no newer answer is available.
	staleFor = time.Hour
	// lookers is the maximum number of look-ups at once. It is less than the number of getent
	// processes, so that getent can also run for other uses.
	lookers = 3
	// maxMembers is the maximum number of members, and maxMembersOf that of one client address.
	maxMembers, maxMembersOf = 65536, 4096
	// maxNumbers is the maximum number of remembered groups, for all users together.
	maxNumbers = 4 << 20
	// maxQueued is the number of users that may be queued for a look-up, and maxQueuedOf that of one
	// address. When the queue is full, a site that has none there may still queue one.
	maxQueued, maxQueuedOf = 4096, 64
	// maxWaitingOf is the largest number of calls of one address that wait for a look-up.
	maxWaitingOf = 32
)

// GroupsConfig holds the settings of Groups.
type GroupsConfig struct {
	// Look returns the groups of a user; ok is false if there is no such user. Look may block until
	// ctx ends. An error means that no answer was available. Usually Look is Map.GroupsOf.
	Look func(ctx context.Context, uid uint32) (groups []uint32, ok bool, err error)
	// Age is how long an answer is valid, and UnknownAge how long the answer "no such user" is. 0 means
	// DefaultAge and DefaultUnknownAge. If calls still ask for a user, Groups renews the answer before it
	// expires. If there is no newer answer, Find uses an old one for an hour (staleFor).
	Age, UnknownAge time.Duration
	// Groups calls Failed, which must not block and may be nil, for each failed look-up.
	Failed func(uid uint32, err error)
}

// Groups returns the groups of users by number. It remembers answers, and looks users up in the
// background. Its methods may be called from any goroutine and do not block.
//
// Each call names the address of its client and its connection. Sites, the addresses of a site, and the
// connections of an address take turns (package turns), and share the queue and the memory by the rule of
// package fair. So a site that asks for many users waits for its own look-ups only. The constant lookers
// limits the goroutines and processes for all together.
type Groups struct {
	cfg GroupsConfig
	ctx context.Context
	end context.CancelFunc
	wg  sync.WaitGroup

	mu      sync.Mutex
	members map[uint32]*member
	askers  map[netip.Addr]*asker
	line    turns.Line[any, *queued] // the queued users
	places  fair.Tree[*asker]        // who has places in line
	memory  fair.Tree[*asker]        // who has members
	numbers int                      // number of groups in all answers
	running int
	// round counts the calls of Forget, so that look notices if Forget was called during a look-up.
	round  int
	closed bool
	stats  GroupsStats
}

// GroupsStats holds the counters of Groups.
type GroupsStats struct {
	// Known is the number of remembered users, Queued the number of users queued or being looked up,
	// and Waiting the number of waiting calls. Looked is the number of finished look-ups, Failed the
	// number of those without an answer, and Delayed the number of calls that got vfs.ErrDelay.
	Known, Queued, Waiting  int
	Looked, Failed, Delayed uint64
}

// An answer holds the groups of one user. It is immutable.
type answer struct {
	uid    uint32
	groups []uint32
	known  bool // the user exists
	// After the time renew, the next Find queues the user for a new look-up. The answer expires at the
	// time until. If no look-up succeeds, Find may use it up to the time stale.
	renew, until, stale time.Time
}

// NewGroups returns a Groups whose cache is empty.
func NewGroups(cfg GroupsConfig) *Groups {
	cfg.Age, cfg.UnknownAge = cmp.Or(cfg.Age, DefaultAge), cmp.Or(cfg.UnknownAge, DefaultUnknownAge)
	if cfg.Failed == nil {
		cfg.Failed = func(uint32, error) {}
	}
	g := &Groups{cfg: cfg, members: make(map[uint32]*member), askers: make(map[netip.Addr]*asker)}
	g.places.Size, g.memory.Size = maxQueued, maxMembers
	g.ctx, g.end = context.WithCancel(context.Background())
	return g
}

// Close cancels look-ups and resumes waiting calls. It returns when no look-up runs.
func (g *Groups) Close() {
	g.mu.Lock()
	g.closed = true
	for m := g.nextLocked(); m != nil; m = g.nextLocked() {
	}
	var resume []func()
	for _, m := range g.members {
		resume = append(resume, g.releaseLocked(m)...)
	}
	g.mu.Unlock()
	g.end()
	for _, f := range resume {
		f()
	}
	g.wg.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, m := range g.members {
		g.removeLocked(m)
	}
	g.stats.Queued = 0
}

// Forget makes every answer expire. Find then uses the former groups of a user if no look-up succeeds.
func (g *Groups) Forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.round++
	for _, m := range g.members {
		m.failed = time.Time{}
		switch {
		case m.answer != nil && m.answer.known:
			expired := *m.answer
			expired.renew, expired.until = time.Time{}, time.Time{}
			g.keepLocked(m, &expired)
		case m.asked.IsZero():
			g.removeLocked(m)
		default:
			g.keepLocked(m, nil)
		}
	}
}

// Stats returns the counters.
func (g *Groups) Stats() GroupsStats {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.stats
	s.Known = len(g.members)
	return s
}

// Find returns the groups of a user for a call of a client. The call came by the connection conn, which is
// any comparable value. The caller must not change the groups. A user without an account has no groups. If
// a look-up is running, the error is a *Wait. If it takes too long or has failed, or the client asks for too
// many users, Find returns former groups, or vfs.ErrDelay.
func (g *Groups) Find(client netip.Addr, conn any, uid uint32) ([]uint32, error) {
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[uid]
	if m != nil && m.holds(now) {
		if !now.Before(m.answer.renew) && m.asked.IsZero() && !now.Before(m.failed) {
			g.askLocked(client, conn, m, uid, now) // if it fails, a later call asks
		}
		return m.answer.groups, nil
	}
	if g.mayWaitLocked(client, m, now) && (m != nil && !m.asked.IsZero() || g.askLocked(client, conn, m, uid, now)) {
		return nil, &Wait{g, client, uid}
	}
	if m != nil && m.answer != nil && now.Before(m.answer.stale) && g.stuckLocked(client, now) {
		return m.answer.groups, nil
	}
	g.stats.Delayed++
	return nil, vfs.ErrDelay
}

// Delays reports whether Find would return vfs.ErrDelay for a user. It starts no look-up.
func (g *Groups) Delays(uid uint32) bool {
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[uid]
	return m != nil && !m.holds(now) && m.hopeless(now)
}

// mayWaitLocked reports whether a call of a client may wait for the groups of m, which is nil if there is
// no entry yet: fewer than maxWaitingOf calls of its address wait, and the look-up is not hopeless.
func (g *Groups) mayWaitLocked(client netip.Addr, m *member, now time.Time) bool {
	a := g.askers[clientaddr.Of(client)]
	return !g.closed && (a == nil || a.waiting < maxWaitingOf) && (m == nil || !m.hopeless(now))
}

// stuckLocked reports whether a user whom a client's address has queued has waited too long.
func (g *Groups) stuckLocked(client netip.Addr, now time.Time) bool {
	a := g.askers[clientaddr.Of(client)]
	return a != nil && a.queued.First != nil && a.queued.First.member.hopeless(now)
}

// A Wait is the error for a call whose user is being looked up.
type Wait struct {
	g      *Groups
	client netip.Addr
	uid    uint32
}

func (w *Wait) Error() string { return "identity: the groups of a user are being looked up" }

// Await calls resume once, when the look-up has ended or the time patience is over: on any goroutine,
// perhaps before Await returns. resume must not block.
func (w *Wait) Await(resume func()) {
	g, now := w.g, time.Now()
	g.mu.Lock()
	m := g.members[w.uid]
	if g.closed || m == nil || m.asked.IsZero() || m.hopeless(now) {
		g.mu.Unlock()
		resume()
		return
	}
	defer g.mu.Unlock()
	a := g.askerOfLocked(w.client)
	a.waiting++
	g.stats.Waiting++
	m.waiting = append(m.waiting, waiter{a, resume})
	if m.timer == nil {
		m.timer = time.AfterFunc(patience-now.Sub(m.asked), func() { g.giveUp(m) })
	}
}

// giveUp resumes the calls that have waited too long for a user. The look-up continues.
func (g *Groups) giveUp(m *member) {
	g.mu.Lock()
	resume := g.releaseLocked(m)
	g.mu.Unlock()
	for _, f := range resume {
		f()
	}
}

// releaseLocked removes the calls that wait for a user. The caller then calls resume without g.mu.
func (g *Groups) releaseLocked(m *member) (resume []func()) {
	for _, w := range m.waiting {
		w.asker.waiting--
		g.stats.Waiting--
		g.dropIdleLocked(w.asker)
		resume = append(resume, w.resume)
	}
	m.waiting = nil
	if m.timer != nil {
		m.timer.Stop()
		m.timer = nil
	}
	return resume
}

// askLocked queues the look-up of a user. m is the memory of an earlier look-up of this user, or nil. It
// returns false if the client asks for too many users.
func (g *Groups) askLocked(client netip.Addr, conn any, m *member, uid uint32, now time.Time) bool {
	a := g.askerOfLocked(client)
	may := g.places.MayBorrow(&a.place, 1) && (g.places.Free() > 0 || g.places.SiteHolds(a.client) == 0)
	if g.closed || !may || a.place.Held() >= maxQueuedOf {
		g.dropIdleLocked(a)
		return false
	}
	g.places.Add(&a.place, 1, 0)
	if m == nil {
		m = &member{uid: uid, asked: now}
		g.addLocked(m, a)
	}
	m.asked = now
	g.stats.Queued++
	q := &m.queued
	q.member, q.by, q.place.Value = m, a, q
	a.queued.Add(q)
	g.line.Join(&q.place, a.client, conn)
	if g.running < lookers {
		g.running++
		g.wg.Go(g.look)
	}
	return true
}

// look looks users up, in the order of line, until no user is queued. If Forget was called
// during a look-up, look does it once more.
func (g *Groups) look() {
	g.mu.Lock()
	for m := g.nextLocked(); m != nil; m = g.nextLocked() {
		var groups []uint32
		var ok bool
		var err error
		for again := true; again; {
			round := g.round
			g.mu.Unlock()
			groups, ok, err = g.cfg.Look(g.ctx, m.uid)
			g.mu.Lock()
			again = round != g.round && !g.closed
		}
		resume := g.settleLocked(m, groups, ok, err)
		g.mu.Unlock()
		if err != nil && g.ctx.Err() == nil {
			g.cfg.Failed(m.uid, err)
		}
		for _, f := range resume {
			f()
		}
		g.mu.Lock()
	}
	g.running--
	g.mu.Unlock()
}

// nextLocked returns the next user to look up, or nil if none is queued.
func (g *Groups) nextLocked() *member {
	p := g.line.Next()
	if p == nil {
		return nil
	}
	q := p.Value
	q.by.queued.Remove(q)
	g.places.Add(&q.by.place, -1, 0)
	g.dropIdleLocked(q.by)
	return q.member
}

// settleLocked stores the outcome of a look-up. Its result is that of releaseLocked.
func (g *Groups) settleLocked(m *member, groups []uint32, ok bool, err error) (resume []func()) {
	now := time.Now()
	defer func() { m.asked = time.Time{} }() // last, because removeOldest skips a member that is being looked up
	g.stats.Queued--
	g.stats.Looked++
	if err != nil {
		g.stats.Failed++
		m.failed = now.Add(failedFor)
		return g.releaseLocked(m)
	}
	m.failed = time.Time{}
	age, stale := g.cfg.Age, max(g.cfg.Age, staleFor)
	if !ok {
		age, stale, groups = g.cfg.UnknownAge, g.cfg.UnknownAge, nil
	}
	next := &answer{m.uid, groups, ok, now.Add(age * 3 / 4), now.Add(age), now.Add(stale)}
	if was := m.answer; !ok && was != nil && was.known && now.Before(was.until) {
		// A directory service that restarts may know no users at first. Keep the old answer until it
		// expires, and look the user up again before that.
		next.groups, next.known, next.until, next.stale = was.groups, true, was.until, was.stale
	}
	g.keepLocked(m, next)
	return g.releaseLocked(m)
}
