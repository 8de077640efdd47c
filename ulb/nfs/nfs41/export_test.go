package nfs41

import "github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"

// Reachable reports whether a client can be called back over one of its sessions.
func Reachable(c *state.Client) bool { return clientOf(c).anySession((*Session).reachable) }

// Answered reports whether a client can be called back and has answered a call before.
func Answered(c *state.Client) bool {
	return clientOf(c).anySession(func(s *Session) bool { return s.answered.Load() && s.reachable() })
}

// Client returns the client that owns the session.
func (s *Session) Client() *state.Client { return s.owner }
