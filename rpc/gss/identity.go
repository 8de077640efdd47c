package gss

import (
	"sync"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// How long a result of Config.Identify is used: knownFor for numbers that were found, unknownFor
// if the principal has none. If numbers cannot be confirmed any more, they are used for staleFor
// after they were found.
const (
	knownFor   = 10 * time.Minute
	unknownFor = 30 * time.Second
	staleFor   = time.Hour
)

// patience is the longest time that the making of a context waits for Identify. failedFor is the
// pause before the next attempt after Identify failed.
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
	// unsure: Identify has failed, or did not answer in time.
	unsure bool
	found  time.Time // when Identify last returned an answer
	until  time.Time // when to call Identify again
}

// fill writes the identity to a credential.
func (id *identity) fill(c *rpc.Cred) {
	if id.known {
		c.UID, c.GID, c.Groups = id.uid, id.gid, id.groups
		return
	}
	c.Anonymous, c.Unsure, c.UID, c.GID = true, id.unsure, rpc.NobodyID, rpc.NobodyID
}

// or returns id. But if id is unsure and before has numbers that are less than staleFor old, or
// returns a copy of before.
func (id *identity) or(before *identity, now time.Time) *identity {
	if !id.unsure || before == nil || !before.known || now.Sub(before.found) >= staleFor {
		return id
	}
	still := *before
	still.until = now.Add(failedFor)
	return &still
}

// maxRemembered is the largest number of principals that the Server remembers.
const maxRemembered = 8192

// identities remembers the identities of principals, so that a caller that makes one context
// after another is looked up once.
type identities struct {
	mu sync.Mutex
	of map[string]*question
}

// A question is one look-up of a principal. Its answer id is valid once done is closed.
type question struct {
	done chan struct{}
	id   *identity
	// before is the previous answer, or nil.
	before *identity
}

// answered returns the answer, or nil if there is none yet.
func (q *question) answered() *identity {
	select {
	case <-q.done:
		return q.id
	default:
		return nil
	}
}

// identify returns the identity of a principal. If it is not remembered, identify looks it up and
// waits for patience (5 seconds) at most. Without an answer by then, the result is unsure.
func (s *Server) identify(principal string, now time.Time) *identity {
	if s.cfg.Identify == nil {
		return &identity{until: now.Add(knownFor)}
	}
	q, ours := s.identities.question(principal, now)
	if ours {
		s.begin(principal, q)
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
		return &identity{unsure: true} // to be looked up again at once
	}
}

// question returns the question to wait for. ours: the caller has to begin it.
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

// forget forgets the outdated principals, and then others until half are left. The caller holds
// mu.
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

// begin starts a look-up, or answers the question with a failure if too many are running.
func (s *Server) begin(principal string, q *question) {
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

// ask does a look-up. It answers the question even if Identify panics.
func (s *Server) ask(principal string, q *question) {
	id := &identity{unsure: true}
	defer func() { q.answer(id, time.Now()) }()
	uid, gid, groups, known, err := s.cfg.Identify(principal)
	if err == nil {
		id = &identity{uid: uid, gid: gid, groups: groups, known: known}
	}
}

// answer answers the question. It is called once.
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
// largest number of contexts that wait for them. Later calls refresh the other contexts.
const (
	maxRefreshers = 4
	maxRefreshes  = 1024
)

// refresher refreshes identities in the background.
type refresher struct {
	mu      sync.Mutex
	asking  int
	waiting []*serverContext
	running int
	closed  bool
	wg      sync.WaitGroup
}

// refresh has the identity of x looked up anew. It does not wait.
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

// refreshOld refreshes the outdated identities of all contexts.
func (s *Server) refreshOld(now time.Time) {
	for c := range s.contexts.parts() {
		for i := range c {
			if x := c[i].Load(); x != nil && now.After(x.who.Load().until) {
				s.refresh(x)
			}
		}
	}
}

// Refresh has all identities looked up anew, because the users or the configuration may have
// changed. It does not wait: the old identities hold until there are new ones.
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

// old returns a copy of the identity that is outdated.
func (id *identity) old() *identity {
	old := *id
	old.until = time.Time{}
	return &old
}

// refreshAll refreshes the waiting contexts, until there are none.
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

// close returns when no look-up runs any more.
func (r *refresher) close() {
	r.mu.Lock()
	r.closed = true
	clear(r.waiting)
	r.waiting = r.waiting[:0]
	r.mu.Unlock()
	r.wg.Wait()
}
