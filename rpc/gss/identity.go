package gss

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// knownFor is the time for which the Server uses user and group numbers that Config.Identify
// returned. unknownFor is the time after which the Server calls Identify again for a principal that
// had no numbers, and failedFor the time after which it calls Identify again after a failure.
// Until it has a new result, the Server uses the old numbers, but not for longer than staleFor.
const (
	knownFor   = 10 * time.Minute
	unknownFor = 30 * time.Second
	failedFor  = 5 * time.Second
	staleFor   = time.Hour
)

// patience is the longest time for which a call that makes a context waits for Identify.
const patience = 5 * time.Second

// maxAsking is the largest number of look-ups that run at once.
const maxAsking = 64

// maxRemembered is the largest number of principals in identities.
const maxRemembered = 8192

// An identity is the result of a look-up: the user and group numbers of a principal. It is
// immutable.
type identity struct {
	uid, gid uint32
	groups   []uint32
	known    bool
	// failed is true if Identify has failed, or has not returned yet.
	failed bool
	found  time.Time // when Identify returned the numbers
	until  time.Time // when to call Identify again
	// generation is the value of identities.generation when the look-up began.
	generation uint64
}

// unsure reports whether it is not known at present if the principal has numbers.
func (id *identity) unsure(now time.Time) bool {
	return id.failed || id.known && now.Sub(id.found) >= staleFor
}

// fill sets the identity in c.
func (id *identity) fill(c *rpc.Cred, now time.Time) {
	unsure := id.unsure(now)
	if id.known && !unsure {
		c.UID, c.GID, c.Groups = id.uid, id.gid, id.groups
		return
	}
	c.Anonymous, c.Unsure, c.UID, c.GID = true, unsure, rpc.NobodyID, rpc.NobodyID
}

// A caller is a principal with its identity. Contexts of one principal share it.
type caller struct {
	principal string
	id        atomic.Pointer[identity]
	// done is closed at the end of the look-up that runs. It is nil if none runs. identities.mu
	// guards it.
	done chan struct{}
}

// identities has the callers, so that a principal with many contexts is looked up once. It performs
// the look-ups in the background, each on a goroutine of its own.
type identities struct {
	// generation is the number of calls of Refresh. Results of look-ups that began before the last
	// call are outdated.
	generation atomic.Uint64

	mu         sync.Mutex
	of         map[string]*caller
	asking     int       // the number of look-ups that run
	free       sync.Cond // signalled when asking becomes lower, or closed is set
	refreshing bool      // refreshOld runs
	closed     bool
	wg         sync.WaitGroup
}

// identify returns the caller with the name principal. If its identity is not known, or outdated,
// identify waits 5 seconds (patience) at most for a look-up. If maxAsking look-ups already run, it
// does not wait. Without a result, the identity is unsure.
func (s *Server) identify(principal string, now time.Time) *caller {
	k := &s.identities
	k.mu.Lock()
	c := k.of[principal]
	if c == nil {
		c = &caller{principal: principal}
		c.id.Store(&identity{failed: s.cfg.Identify != nil})
		if len(k.of) >= maxRemembered {
			s.forgetLocked(now)
		}
		if k.of == nil {
			k.of = make(map[string]*caller)
		}
		k.of[principal] = c
	}
	if s.outdated(c, now) {
		s.lookUpLocked(c)
	}
	done := c.done
	k.mu.Unlock()
	if done != nil {
		t := time.NewTimer(patience)
		defer t.Stop()
		select {
		case <-done:
		case <-t.C:
		}
	}
	return c
}

// outdated reports whether the Server should look up the caller again.
func (s *Server) outdated(c *caller, now time.Time) bool {
	id := c.id.Load()
	return s.cfg.Identify != nil && (!now.Before(id.until) || id.generation != s.identities.generation.Load())
}

// forgetLocked removes the outdated callers, and then any others until maxRemembered/2 are left.
// Contexts keep their callers.
func (s *Server) forgetLocked(now time.Time) {
	of := s.identities.of
	maps.DeleteFunc(of, func(_ string, c *caller) bool { return s.outdated(c, now) })
	for p := range of {
		if len(of) <= maxRemembered/2 {
			return
		}
		delete(of, p)
	}
}

// lookUp begins a look-up of c, and does not wait for it.
func (s *Server) lookUp(c *caller) {
	s.identities.mu.Lock()
	defer s.identities.mu.Unlock()
	s.lookUpLocked(c)
}

// lookUpLocked begins a look-up of c, unless one is under way, maxAsking look-ups run, or the Server
// is closed.
func (s *Server) lookUpLocked(c *caller) {
	k := &s.identities
	if c.done != nil || k.closed || k.asking == maxAsking {
		return
	}
	c.done = make(chan struct{})
	k.asking++
	k.wg.Go(func() {
		c.id.Store(s.ask(c))
		k.mu.Lock()
		defer k.mu.Unlock()
		close(c.done)
		c.done = nil
		k.asking--
		k.free.Signal()
	})
}

// ask calls Config.Identify, and returns the identity of c from now on. If Identify fails, that is
// the old one, if it has numbers.
func (s *Server) ask(c *caller) *identity {
	generation := s.identities.generation.Load()
	uid, gid, groups, known, err := s.cfg.Identify(c.principal)
	now := time.Now()
	id := identity{uid: uid, gid: gid, groups: groups, known: known, found: now, until: now.Add(knownFor)}
	switch before := c.id.Load(); {
	case err != nil:
		if id = (identity{failed: true}); before.known {
			id = *before
		}
		id.until = now.Add(failedFor)
	case !known:
		id.until = now.Add(unknownFor)
	}
	id.generation = generation
	return &id
}

// Refresh starts new look-ups of all identities. Call it when the users of this machine or the
// configuration of the look-up may have changed. Refresh does not wait for the look-ups: the Server
// uses the old identities until it has new ones.
func (s *Server) Refresh() {
	s.identities.generation.Add(1)
	s.refreshOld()
}

// refreshOld starts new look-ups for all contexts whose identities are outdated, in the background.
// It does nothing if the last refreshOld still runs.
func (s *Server) refreshOld() {
	k := &s.identities
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.refreshing || k.closed {
		return
	}
	k.refreshing = true
	k.wg.Go(func() {
		for x := range s.contexts.all() {
			if !s.outdated(x.who, time.Now()) {
				continue
			}
			k.mu.Lock()
			for k.asking == maxAsking && !k.closed {
				k.free.Wait()
			}
			s.lookUpLocked(x.who)
			k.mu.Unlock()
		}
		k.mu.Lock()
		k.refreshing = false
		k.mu.Unlock()
	})
}

// close stops further look-ups, and returns when the running ones have ended.
func (k *identities) close() {
	k.mu.Lock()
	k.closed = true
	k.free.Broadcast()
	k.mu.Unlock()
	k.wg.Wait()
}
