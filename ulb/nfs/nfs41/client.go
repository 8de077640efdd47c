package nfs41

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// maxSessions is the maximum number of sessions of a client.
const maxSessions = 64

// A client is the state.Companion of a client: it holds the data of the client that only this package uses.
type client struct {
	protect protection
	told    About // by the EXCHANGE_ID that made the client

	// A goroutine holds creating while it executes CREATE_SESSION. creating guards last, failed and
	// changes of sequence. sequence, last and failed are the client's reply cache for
	// CREATE_SESSION, which has one slot (RFC 8881 §18.36.4).
	creating sync.Mutex
	sequence atomic.Uint32
	last     *created
	// failed is true if a CREATE_SESSION with the number sequence+1 came and failed. After that, some
	// clients continue with sequence+2, as phase 2 of RFC 8881 §18.36.4 says; others use sequence+1 again.
	failed bool

	// mu guards the fields below.
	mu       sync.Mutex
	sessions []*Session
	gone     bool
}

// created is the stored reply to a CREATE_SESSION.
type created struct {
	status wire.NFSStat4
	result wire.CreateSession4ResOK
}

// clientOf returns the companion of c. It returns nil if c is nil or of minor version 0.
func clientOf(c *state.Client) *client {
	if c == nil {
		return nil
	}
	x, _ := c.Companion().(*client)
	return x
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

// endSessions ends the sessions of the client, which creates new ones if it still runs.
func (c *client) endSessions() {
	c.mu.Lock()
	all := slices.Clone(c.sessions)
	c.mu.Unlock()
	for _, s := range all {
		if c.part(s) {
			s.end()
		}
	}
}

// join adds a session. It returns NFS4ErrStaleClientID if the client is gone, and NFS4ErrDelay if another session has
// displaced this one.
func (c *client) join(s *Session) nfs4.Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.gone:
		return wire.NFS4ErrStaleClientID
	case s.displaced:
		return wire.NFS4ErrDelay
	}
	c.sessions = append(c.sessions, s)
	s.owner.AddSessions(1)
	return wire.NFS4OK
}

// part removes a session from the client. It returns false if another goroutine has removed the
// session before.
func (c *client) part(s *Session) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.partLocked(s)
}

// displace is part for a session that has to make room for another one. If the session has not joined the client yet,
// it cannot join any more, and displace returns false.
func (c *client) displace(s *Session) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.displaced = true
	return c.partLocked(s)
}

func (c *client) partLocked(s *Session) bool {
	i := slices.Index(c.sessions, s)
	if i < 0 {
		return false
	}
	c.sessions = slices.Delete(c.sessions, i, i+1)
	s.owner.AddSessions(-1)
	return true
}

// full reports whether the client has the maximum number of sessions.
func (c *client) full() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.sessions) >= maxSessions
}

func (c *client) anySession(is func(*Session) bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.sessions, is)
}
