package gss

import (
	"bytes"
	"context"
	"fmt"
	"maps"
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
// nil if the principal has no such context, if RPCSEC_GSS does not have the service, if theirs is
// empty or too long for a credential, or if the client has already offered 16 other handles for the
// context. Back copies theirs.
func (s *Server) Back(handle, theirs []byte, service rpc.GSSService, principal string) *Back {
	x := s.contexts.find(handle)
	if x == nil || x.principal != principal || !goodService(service) || len(theirs) == 0 || len(theirs) > maxHandle {
		return nil
	}
	under := x.backs.under(x.ctx, theirs)
	if under == nil {
		return nil
	}
	return &Back{x: x, under: under, service: service}
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

// Limits of Initiators. maxOwnNames is the largest number of names of this server. restTime is the
// time between a failure and the next attempt with the same peer. maxFailures is the largest number
// of peers whose failures are stored.
const (
	maxOwnNames = 16
	restTime    = 30 * time.Second
	maxFailures = 1024
)

// Initiators prepares contexts with a server's clients, for the server's calls to them (RFC 7530
// §3.3.3). After a failure with a peer, it does not try that peer again for 30 seconds, because any
// client can name a peer for which the KDC has no ticket. The methods may be called from any
// goroutine.
type Initiators struct {
	mechanism func(own string) Mechanism

	mu         sync.Mutex
	mechanisms map[string]Mechanism
	failures   map[string]failure // by target
}

// A failure is the last attempt to prepare a context with a peer, which failed with err. The field
// until is the earliest time for a new attempt.
type failure struct {
	until time.Time
	err   error
}

// NewInitiators returns Initiators. The argument mechanism is a function that returns the Mechanism
// for contexts in which this server has the name that the parameter own gives.
func NewInitiators(mechanism func(own string) Mechanism) *Initiators {
	return &Initiators{mechanism: mechanism, mechanisms: make(map[string]Mechanism), failures: make(map[string]failure)}
}

// Prepare is like the function Prepare, for a context with cfg.Target. The parameter own is the
// name that this server has in the context. Prepare ignores cfg.Mechanism. It returns the stored
// error if an attempt with cfg.Target has failed in the last 30 seconds.
func (i *Initiators) Prepare(ctx context.Context, own string, cfg ClientConfig) (*Prepared, error) {
	m, err := i.choose(own, cfg.Target, time.Now())
	if err != nil {
		return nil, err
	}
	cfg.Mechanism = m
	p, err := Prepare(ctx, cfg)
	if err != nil {
		i.failed(cfg.Target, err, time.Now())
	}
	return p, err
}

// choose returns the mechanism for contexts in which this server has the name that the parameter
// own gives. If an attempt with target has failed within restTime, choose returns an error that
// wraps that attempt's error. It also fails if own is a new name and there are already maxOwnNames
// names.
func (i *Initiators) choose(own, target string, now time.Time) (Mechanism, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if f, ok := i.failures[target]; ok && now.Before(f.until) {
		return nil, fmt.Errorf("%w; it is tried again in %v", f.err, f.until.Sub(now).Round(time.Second))
	}
	m := i.mechanisms[own]
	if m != nil {
		return m, nil
	}
	if len(i.mechanisms) >= maxOwnNames {
		return nil, fmt.Errorf("gss: context with %s: contexts are initiated under %d names already", target, maxOwnNames)
	}
	m = i.mechanism(own)
	i.mechanisms[own] = m
	return m, nil
}

// failed stores the error of an attempt to prepare a context with target. The error is valid for
// restTime. If maxFailures errors are stored already, failed deletes the outdated ones, and then any
// others until fewer than maxFailures are left.
func (i *Initiators) failed(target string, err error, now time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.failures) >= maxFailures {
		maps.DeleteFunc(i.failures, func(_ string, f failure) bool { return !now.Before(f.until) })
	}
	for t := range i.failures {
		if len(i.failures) < maxFailures {
			break
		}
		delete(i.failures, t)
	}
	i.failures[target] = failure{now.Add(restTime), err}
}
