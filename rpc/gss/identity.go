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

// An identity is a principal in numbers, immutable.
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

// identify asks who a principal is.
func (s *Server) identify(principal string, now time.Time) *identity {
	id := &identity{until: now.Add(unknownFor)}
	if s.cfg.Identify == nil {
		id.until = now.Add(knownFor)
		return id
	}
	if id.uid, id.gid, id.groups, id.known = s.cfg.Identify(principal); id.known {
		id.until = now.Add(knownFor)
	}
	return id
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
