package nfs41

import (
	"slices"
	"sync"
	"sync/atomic"

	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// maxSessions is how many sessions a client may have.
const maxSessions = 64

// A client is what is kept beside a state.Client: it is its Companion.
type client struct {
	*state.Client
	minor   *Minor
	protect protection

	// creating is held by CREATE_SESSION, and guards last and what changes sequence: the
	// client's reply cache of one slot (RFC 8881 §18.36.4).
	creating sync.Mutex
	sequence atomic.Uint32
	last     *created
	// failed: the number behind sequence came, and its request failed. Some clients use
	// a number up that way, as phase 2 of the RFC has it, and others send it again.
	failed bool

	// mu guards what follows. Nothing else is locked under it but the slots.
	mu       sync.Mutex
	sessions []*Session
	leaving  []*Session // that have ended, and in which requests were still under way
	gone     bool
}

// created is a reply to CREATE_SESSION.
type created struct {
	status wire.NFSStat4
	result wire.CreateSession4ResOK
}

func clientOf(c *state.Client) *client {
	x, _ := c.Companion().(*client)
	return x
}

// Active implements state.Companion.
func (c *client) Active() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.sessions) > 0
}

// Busy implements state.Companion. Requests of a session that has ended count as well.
func (c *client) Busy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgetLeft()
	return len(c.leaving) > 0 || slices.ContainsFunc(c.sessions, (*Session).busy)
}

// forgetLeft forgets sessions that have ended with all their requests. c.mu is held.
func (c *client) forgetLeft() {
	c.leaving = slices.DeleteFunc(c.leaving, func(s *Session) bool { return !s.busy() })
}

// Gone implements state.Companion.
func (c *client) Gone() {
	c.mu.Lock()
	c.gone = true
	all := c.sessions
	c.sessions = nil
	c.mu.Unlock()
	for _, s := range all {
		s.end()
	}
}

// join adds a session. It is false where the client is no more.
func (c *client) join(s *Session) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return false
	}
	c.sessions = append(c.sessions, s)
	return true
}

// part takes a session away. It is false where another goroutine did.
func (c *client) part(s *Session) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.sessions, s)
	if i < 0 {
		return false
	}
	c.sessions = slices.Delete(c.sessions, i, i+1)
	c.forgetLeft()
	c.leaving = append(c.leaving, s)
	return true
}

// full says that the client has as many sessions as it may.
func (c *client) full() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.sessions) >= maxSessions
}

// reachable says whether one of the client's sessions has a connection to call over.
func (c *client) reachable() bool { return c.anySession((*Session).reachable) }

func (c *client) anySession(is func(*Session) bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.sessions, is)
}
