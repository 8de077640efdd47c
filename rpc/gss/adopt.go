package gss

import (
	"net/netip"
	"time"
)

// Adopt lets s accept calls under the current context of c: a server may call the client that
// made the context (RFC 8881 §2.10.8.2). theirs is the handle by which that server knows the
// context; ours is the handle that its calls have to name.
func (s *Server) Adopt(c *Client) (theirs, ours []byte) {
	c.mu.Lock()
	under := c.ctx
	c.mu.Unlock()
	return under.handle, s.adopt(under.ctx)
}

// adopt lets calls come under a context that was made elsewhere, until the context expires or is
// evicted. The sweep does not remove it for want of use.
func (s *Server) adopt(c Context) []byte {
	now := time.Now()
	x := &serverContext{ctx: c, principal: c.Principal(), own: c.Own(), expiry: c.Expiry()}
	x.who.Store(s.identify(x.principal, now))
	s.contexts.add(x, netip.IPv4Unspecified(), now)
	return x.handle[:]
}
