package gss

import (
	"sync"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// knownFor is the time for which the Server uses user and group numbers that Config.Identify
// returned. unknownFor is the time after which the Server calls Identify again for a principal that
// had no numbers. If Identify then fails, the Server uses the old numbers until staleFor has passed
// since Identify returned them.
const (
	knownFor   = 10 * time.Minute
	unknownFor = 30 * time.Second
	staleFor   = time.Hour
)

// patience is the longest time for which a call that makes a context waits for Identify. failedFor
// is the time between a failure of Identify and the next attempt.
const (
	patience  = 5 * time.Second
	failedFor = 5 * time.Second
)

// An identity holds the user and group numbers of a principal. It is immutable. Contexts of one
// principal share it.
type identity struct {
	uid, gid uint32
	groups   []uint32
	known    bool
	// unsure is true if Identify has failed, or did not return in time.
	unsure bool
	found  time.Time // when Identify returned the result
	until  time.Time // when to call Identify again
}

// fill sets the identity in c.
func (id *identity) fill(c *rpc.Cred) {
	if id.known {
		c.UID, c.GID, c.Groups = id.uid, id.gid, id.groups
		return
	}
	c.Anonymous, c.Unsure, c.UID, c.GID = true, id.unsure, rpc.NobodyID, rpc.NobodyID
}

// id.or(before, now) is the identity to use after a new look-up. id is the result of that look-up,
// and before is the result of the previous one, or nil. The identity to use is id, unless the new
// look-up failed and the previous one found user and group numbers less than staleFor ago. Then it
// is a copy of before.
func (id *identity) or(before *identity, now time.Time) *identity {
	if !id.unsure || before == nil || !before.known || now.Sub(before.found) >= staleFor {
		return id
	}
	still := *before
	still.until = now.Add(failedFor)
	return &still
}

// maxRemembered is the largest number of principals in identities.
const maxRemembered = 8192

// identities is a cache of the identities of principals, so that a caller that makes many contexts
// is looked up once.
type identities struct {
	mu sync.Mutex
	of map[string]*question
}

// A question is one look-up of a principal. The field id is the result, which is valid once done is
// closed.
type question struct {
	done chan struct{}
	id   *identity
	// before is the result of the previous look-up, or nil.
	before *identity
}

// answered returns the result, or nil if there is none yet.
func (q *question) answered() *identity {
	select {
	case <-q.done:
		return q.id
	default:
		return nil
	}
}

// identify returns the identity of a principal. If it is not in the cache, identify looks it up and
// waits 5 seconds (patience) at most. If there is no result by then, identify returns an identity
// that is unsure.
func (s *Server) identify(principal string, now time.Time) *identity {
	if s.cfg.Identify == nil {
		return &identity{until: now.Add(knownFor)}
	}
	q, ours := s.identities.question(principal, now)
	if ours {
		s.startLookup(principal, q)
	}
	if id := q.answered(); id != nil {
		return id
	}
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case <-q.done:
		return q.id
	case <-t.C:
		return &identity{unsure: true} // until is zero, so that the next call under the context starts a new look-up
	}
}

// question returns the look-up of a principal. ours is true if it is new and the caller has to
// begin it.
func (k *identities) question(principal string, now time.Time) (q *question, ours bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if q = k.of[principal]; q != nil {
		if id := q.answered(); id == nil || now.Before(id.until) {
			return q, false
		}
	}
	if k.of == nil {
		k.of = make(map[string]*question)
	}
	if q == nil && len(k.of) >= maxRemembered {
		k.forget(now)
	}
	fresh := &question{done: make(chan struct{})}
	if q != nil {
		fresh.before = q.id
	}
	k.of[principal] = fresh
	return fresh, true
}

// forget deletes the outdated identities, and then any others until maxRemembered/2 are left. The
// caller holds mu.
func (k *identities) forget(now time.Time) {
	for p, q := range k.of {
		if id := q.answered(); id != nil && !now.Before(id.until) {
			delete(k.of, p)
		}
	}
	for p := range k.of {
		if len(k.of) <= maxRemembered/2 {
			return
		}
		delete(k.of, p)
	}
}

// maxAsking is the largest number of look-ups that run at once.
const maxAsking = 64

// startLookup starts a look-up on another goroutine. If maxAsking look-ups are running, or the
// Server is closed, the look-up fails at once.
func (s *Server) startLookup(principal string, q *question) {
	r := &s.refresher
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.asking == maxAsking {
		q.answer(&identity{unsure: true}, time.Now())
		return
	}
	r.asking++
	r.wg.Go(func() {
		s.ask(principal, q)
		r.mu.Lock()
		r.asking--
		r.mu.Unlock()
	})
}

// ask performs a look-up. It sets the result even if Identify panics.
func (s *Server) ask(principal string, q *question) {
	id := &identity{unsure: true}
	defer func() { q.answer(id, time.Now()) }()
	uid, gid, groups, known, err := s.cfg.Identify(principal)
	if err == nil {
		id = &identity{uid: uid, gid: gid, groups: groups, known: known}
	}
}

// answer sets the result of the look-up. It is called once for each look-up.
func (q *question) answer(id *identity, now time.Time) {
	id.found = now
	switch {
	case id.unsure:
		id.until = now.Add(failedFor)
	case id.known:
		id.until = now.Add(knownFor)
	default:
		id.until = now.Add(unknownFor)
	}
	q.id = id.or(q.before, now)
	close(q.done)
}

// maxRefreshers is the largest number of goroutines that refresh identities. maxRefreshes is the
// largest number of contexts that wait for them. The identities of further contexts are refreshed
// at their next calls or at the next sweep.
const (
	maxRefreshers = 4
	maxRefreshes  = 1024
)

// refresher looks up identities in the background. asking is the number of look-ups in progress,
// each on a goroutine of its own (startLookup). The field waiting has the contexts whose identities
// have to be looked up again. The field running is the number of goroutines that work on waiting:
// each takes one context after the other, starts its look-up, and waits for the result.
type refresher struct {
	mu      sync.Mutex
	asking  int
	waiting []*serverContext
	running int
	closed  bool
	wg      sync.WaitGroup
}

// refresh starts a new look-up of the identity of x, unless one is under way, maxRefreshes contexts
// already wait for theirs, or the Server is closed. It does not wait for the result.
func (s *Server) refresh(x *serverContext) {
	if x.refreshing.Load() || !x.refreshing.CompareAndSwap(false, true) {
		return
	}
	r := &s.refresher
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || len(r.waiting) == maxRefreshes {
		x.refreshing.Store(false)
		return
	}
	r.waiting = append(r.waiting, x)
	if r.running < maxRefreshers {
		r.running++
		r.wg.Go(s.refreshAll)
	}
}

// refreshOld starts new look-ups for all contexts whose identities are outdated.
func (s *Server) refreshOld(now time.Time) {
	for c := range s.contexts.parts() {
		for i := range c {
			if x := c[i].Load(); x != nil && now.After(x.who.Load().until) {
				s.refresh(x)
			}
		}
	}
}

// Refresh starts new look-ups of all identities. Call it when the users of this machine or the
// configuration of the look-up may have changed. Refresh does not wait for the look-ups: the Server
// uses the old identities until it has new ones.
func (s *Server) Refresh() {
	now := time.Now()
	k := &s.identities
	k.mu.Lock()
	for p, q := range k.of {
		if id := q.answered(); id != nil {
			k.of[p] = &question{done: q.done, id: id.old(), before: q.before}
		}
	}
	k.mu.Unlock()
	for c := range s.contexts.parts() {
		for i := range c {
			if x := c[i].Load(); x != nil {
				who := x.who.Load()
				x.who.CompareAndSwap(who, who.old())
			}
		}
	}
	s.refreshOld(now)
}

// old returns a copy of id that counts as outdated.
func (id *identity) old() *identity {
	old := *id
	old.until = time.Time{}
	return &old
}

// refreshAll looks up the identities of the contexts in refresher.waiting, until there are none.
func (s *Server) refreshAll() {
	r := &s.refresher
	for {
		r.mu.Lock()
		n := len(r.waiting)
		if n == 0 {
			r.running--
			r.mu.Unlock()
			return
		}
		x := r.waiting[n-1]
		r.waiting[n-1] = nil
		r.waiting = r.waiting[:n-1]
		r.mu.Unlock()
		id := s.identify(x.principal, time.Now())
		x.who.Store(id.or(x.who.Load(), time.Now()))
		x.refreshing.Store(false)
	}
}

// close stops further look-ups, and returns when the running ones have ended.
func (r *refresher) close() {
	r.mu.Lock()
	r.closed = true
	clear(r.waiting)
	r.waiting = r.waiting[:0]
	r.mu.Unlock()
	r.wg.Wait()
}
