package gss

import (
	"sync"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// How long what Config.Identify said is taken for true: numbers that were found, that there
// are none, and, of numbers that cannot be confirmed any more, how long after they were.
const (
	knownFor   = 10 * time.Minute
	unknownFor = 30 * time.Second
	staleFor   = time.Hour
)

// patience is how long the making of a context waits for an answer, and failedFor how
// soon it is asked again after there was none.
const (
	patience  = 5 * time.Second
	failedFor = 5 * time.Second
)

// An identity is a principal in numbers, immutable. Contexts of one principal share it.
type identity struct {
	uid, gid uint32
	groups   []uint32
	known    bool
	// unsure: it could not be told.
	unsure bool
	found  time.Time // when the numbers were last asked for with an answer
	until  time.Time // when it is to be asked for anew
}

// fill writes the identity to a credential.
func (id *identity) fill(c *rpc.Cred) {
	if id.known {
		c.UID, c.GID, c.Groups = id.uid, id.gid, id.groups
		return
	}
	c.Anonymous, c.Unsure, c.UID, c.GID = true, id.unsure, rpc.NobodyID, rpc.NobodyID
}

// or is the answer before, where id is none, and that one had numbers not long ago.
func (id *identity) or(before *identity, now time.Time) *identity {
	if !id.unsure || before == nil || !before.known || now.Sub(before.found) >= staleFor {
		return id
	}
	still := *before
	still.until = now.Add(failedFor)
	return &still
}

// maxRemembered is how many principals are remembered.
const maxRemembered = 8192

// identities remember the users of principals: the user of a caller that makes one
// context after another is looked up once.
type identities struct {
	mu sync.Mutex
	of map[string]*question
}

// A question asks for the user of a principal. Its answer is there when done is closed.
type question struct {
	done chan struct{}
	id   *identity
	// before is the last answer, or nil.
	before *identity
}

// answered is the answer, nil if there is none yet.
func (q *question) answered() *identity {
	select {
	case <-q.done:
		return q.id
	default:
		return nil
	}
}

// identify finds the user of a principal. If it is not remembered it asks, and waits for
// the answer for a few seconds. If there is none by then, the result is unsure.
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
		return &identity{unsure: true} // to be asked for anew at once
	}
}

// question is the one to wait for; ours says that the caller has to ask it.
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

// forget forgets half of the principals: what is too old, and else any. mu is held.
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

// maxAsking is how many principals are asked for at once.
const maxAsking = 64

// begin has a question asked, or answers it with a failure where too many are asked.
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

// ask asks, and wakes the waiting calls even if Identify panics.
func (s *Server) ask(principal string, q *question) {
	id := &identity{unsure: true}
	defer func() { q.answer(id, time.Now()) }()
	uid, gid, groups, known, err := s.cfg.Identify(principal)
	if err == nil {
		id = &identity{uid: uid, gid: gid, groups: groups, known: known}
	}
}

// answer is called once.
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

// maxRefreshers is how many goroutines ask for identities anew, and maxRefreshes how
// many contexts wait for that. Those beyond are asked for by a later call.
const (
	maxRefreshers = 4
	maxRefreshes  = 1024
)

// refresher asks for identities in the background.
type refresher struct {
	mu      sync.Mutex
	asking  int
	waiting []*serverContext
	running int
	closed  bool
	wg      sync.WaitGroup
}

// refresh has the identity of x asked for anew. It does not wait.
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

// refreshOld has the identities of contexts asked for anew that are old by now.
func (s *Server) refreshOld(now time.Time) {
	for c := range s.contexts.parts() {
		for i := range c {
			if x := c[i].Load(); x != nil && now.After(x.who.Load().until) {
				s.refresh(x)
			}
		}
	}
}

// Refresh has all identities asked for anew, because what Config.Identify says may have changed.
// It does not wait: until there is an answer, what was known holds.
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

// old is the identity, to be asked for anew.
func (id *identity) old() *identity {
	old := *id
	old.until = time.Time{}
	return &old
}

// refreshAll asks for the identities that wait, until there are none.
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

// close returns when nothing is asked for any more.
func (r *refresher) close() {
	r.mu.Lock()
	r.closed = true
	clear(r.waiting)
	r.waiting = r.waiting[:0]
	r.mu.Unlock()
	r.wg.Wait()
}
