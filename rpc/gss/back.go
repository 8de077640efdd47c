package gss

import (
	"bytes"
	"net/netip"
	"sync"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// A Back is a context that a client made, for calls of the server to that client (RFC 8881
// §2.10.8.2, §18.36.3). All methods may be called from any goroutine.
type Back struct {
	x       *serverContext
	under   *clientContext
	service rpc.GSSService
}

// maxBacks is the largest number of handles that a client may offer for calls under one context.
const maxBacks = 16

// backs lists the handles that the client has offered for the server's calls under one context.
// Each handle has its own sequence numbers (RFC 2203 §5.3.1). A handle that the client offers again
// continues its old numbers.
type backs struct {
	mu  sync.Mutex
	all []*clientContext
}

// under returns the clientContext for the server's calls under the context c. theirs is the handle
// that these calls contain; the client has offered it. It returns nil if the client has already
// offered maxBacks other handles.
func (b *backs) under(c Context, theirs []byte) *clientContext {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, u := range b.all {
		if bytes.Equal(u.handle, theirs) {
			return u
		}
	}
	if len(b.all) == maxBacks {
		return nil
	}
	u := &clientContext{ctx: c, handle: bytes.Clone(theirs), window: windowSize}
	b.all = append(b.all, u)
	return u
}

// Back returns the context that the server knows by handle, for calls to the client that made it.
// theirs is the handle that these calls have to contain; service is their protection. Back returns
// nil if the principal has no such context, if theirs or service is not usable (GoodBack), or if
// the client has already offered 16 other handles for the context. Back copies theirs.
func (s *Server) Back(handle, theirs []byte, service rpc.GSSService, principal string) *Back {
	x := s.contexts.find(handle)
	if x == nil || x.principal != principal || !GoodBack(theirs, service) {
		return nil
	}
	under := x.backs.under(x.ctx, theirs)
	if under == nil {
		return nil
	}
	return &Back{x: x, under: under, service: service}
}

// GoodBack reports whether the handle and the service that a client offers for calls to it are
// usable: RPCSEC_GSS has the service, and the handle is not empty and fits into a credential.
func GoodBack(theirs []byte, service rpc.GSSService) bool {
	return goodService(service) && len(theirs) > 0 && len(theirs) <= maxHandle
}

// Usable reports whether the server can make calls under the context: it has not expired, it has
// unused sequence numbers, and the client has not destroyed it.
func (b *Back) Usable(now time.Time) bool {
	return !b.x.destroyed.Load() && b.under.usable(now)
}

// Expiry returns when the context ends.
func (b *Back) Expiry() time.Time { return b.x.expiry }

// Caller returns a Caller that makes calls on k under the context. Several Callers may be used at
// once. If the client refuses a call because it no longer knows the context, the Caller does not
// repeat the call.
func (b *Back) Caller(k rpc.Caller) rpc.Caller {
	return &Client{k: k, cfg: ClientConfig{Service: b.service}, fixed: true, ctx: b.under}
}

// CallSize returns the length, in bytes, of a call with n bytes of arguments. With the service
// GSSPrivacy, it is the largest possible length.
func (b *Back) CallSize(n int) int {
	p := protector{ctx: b.x.ctx, service: b.service}
	o := p.overhead()
	const fixed, authenticator = 6 * 4, 2 * 4
	return fixed + authenticator + 5*4 + padded(len(b.under.handle)) + authenticator + o.Verifier + o.Before + n + o.Behind
}

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
	x.who = s.identify(x.principal, now)
	s.contexts.add(x, netip.IPv4Unspecified(), now)
	return x.handle[:]
}
