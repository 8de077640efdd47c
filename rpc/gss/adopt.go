package gss

import (
	"net/netip"
	"time"
)

// Adopt makes s, which serves a client's callbacks, accept them under the current context of c.
// The remote server may make callbacks under the context that the client made for its calls (RFC
// 8881 §2.10.8.2). theirs is the handle that the remote server gave to the context. ours is the
// handle that callbacks have to contain.
func (s *Server) Adopt(c *Client) (theirs, ours []byte) {
	c.mu.Lock()
	under := c.ctx
	c.mu.Unlock()
	return under.handle, s.adopt(under.ctx)
}

// adopt adds a context that this Server did not make, and returns its handle. The context is valid
// until it expires or is evicted. adopt does not start the timer of Server.sweep, because sweep
// would delete the context if there is no callback for Config.Idle.
func (s *Server) adopt(c Context) []byte {
	now := time.Now()
	x := &serverContext{ctx: c, principal: c.Principal(), own: c.Own(), expiry: c.Expiry()}
	x.who.Store(s.identify(x.principal, now))
	s.contexts.add(x, netip.IPv4Unspecified(), now)
	return x.handle[:]
}
