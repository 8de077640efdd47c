package gss

import (
	"bytes"
	"sync"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// A Back is a context that a client made, used the other way round: for calls of the
// server to that client (RFC 8881 §2.10.8.2, §18.36.3). All methods may be called from any
// goroutine.
type Back struct {
	x       *serverContext
	under   *clientContext
	service rpc.GSSService
}

// maxBacks is how many handles one context is called back under at most.
const maxBacks = 16

// backs are the handles that a context is called back under. The sequence numbers of calls
// belong to context and handle (RFC 2203 §5.3.1), however often the client offers these.
type backs struct {
	mu  sync.Mutex
	all []*clientContext
}

// under is the context under a handle of the client's; nil where there are too many.
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

// Back returns the context of a handle for calls to the client that made it. theirs is
// the handle by which the client knows the context in these calls, and service their
// protection. It is nil where there is no such context of the principal, or its client has
// offered it under too many handles. theirs is not kept.
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

// GoodBack says whether calls to a client can be made under the handle and the service
// that it wants them to be made under.
func GoodBack(theirs []byte, service rpc.GSSService) bool {
	return goodService(service) && len(theirs) > 0 && len(theirs) <= maxHandle
}

// Usable says whether calls can be made: the context's ticket has not ended, and the
// client has not destroyed it.
func (b *Back) Usable(now time.Time) bool {
	return !b.x.destroyed.Load() && b.under.usable(now)
}

// Expiry is when the context ends.
func (b *Back) Expiry() time.Time { return b.x.expiry }

// Caller makes calls on k under the context. There may be several at once. A call that
// the client refuses, as it does not know the context any more, is not made again.
func (b *Back) Caller(k rpc.Caller) rpc.Caller {
	c := &Client{k: k, cfg: ClientConfig{Service: b.service}, fixed: true, ctx: b.under}
	c.idle = sync.NewCond(&c.mu)
	return c
}

// CallSize is how long a call gets whose arguments have n bytes; under privacy, at most.
func (b *Back) CallSize(n int) int {
	p := protector{ctx: b.x.ctx, service: b.service}
	o := p.overhead()
	const fixed, authenticator = 6 * 4, 2 * 4
	return fixed + authenticator + 5*4 + padded(len(b.under.handle)) + authenticator + o.Verifier + o.Before + n + o.Behind
}
