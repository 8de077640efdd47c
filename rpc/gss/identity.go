package gss

import (
	"sync"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// How long what Config.Identify said is taken for true: numbers that were found, and
// that there are none.
const (
	knownFor   = 10 * time.Minute
	unknownFor = 30 * time.Second
)

// An identity is a principal in numbers, immutable. Contexts of one principal share it.
type identity struct {
	uid, gid uint32
	groups   []uint32
	known    bool
	until    time.Time // when it is to be asked for anew
}

// fill writes the identity to a credential.
func (id *identity) fill(c *rpc.Cred) {
	if id.known {
		c.UID, c.GID, c.Groups = id.uid, id.gid, id.groups
		return
	}
	c.Anonymous, c.UID, c.GID = true, rpc.NobodyID, rpc.NobodyID
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
// the answer.
func (s *Server) identify(principal string, now time.Time) *identity {
	if s.cfg.Identify == nil {
		return &identity{until: now.Add(knownFor)}
	}
	q, ours := s.identities.question(principal, now)
	if ours {
		s.ask(principal, q, now)
	}
	<-q.done
	return q.id
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
	q = &question{done: make(chan struct{})}
	k.of[principal] = q
	return q, true
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

// ask asks, and wakes the waiting calls even if Identify panics.
func (s *Server) ask(principal string, q *question, now time.Time) {
	id := &identity{until: now}
	defer func() {
		q.id = id
		close(q.done)
	}()
	uid, gid, groups, known := s.cfg.Identify(principal)
	id = &identity{uid: uid, gid: gid, groups: groups, known: known, until: now.Add(unknownFor)}
	if known {
		id.until = now.Add(knownFor)
	}
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
		x.who.Store(s.identify(x.principal, time.Now()))
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
