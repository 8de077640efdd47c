package gss

import (
	"bytes"
	"runtime"
	"sync"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// ContextSize is more than a context takes, in bytes, with keys of Kerberos for all services
// and the longest principal.
const ContextSize = 8 << 10

// Config is what a Server serves, and its bounds.
type Config struct {
	// Mechanisms make the contexts.
	Mechanisms []Mechanism
	// Identify says who a principal is, in numbers. It is called where a context is
	// made, on a goroutine that may wait, and again in the background of later
	// calls, for one principal once in ten minutes, or in half a minute where it is not
	// known. groups must not be changed afterwards. Where ok is false, or Identify
	// is nil, the caller is anonymous (rpc.Cred.Anonymous). An error says that the principal
	// cannot be identified at present: what an earlier call of Identify returned holds for
	// another hour then; without such a result the caller is rpc.Cred.Unsure. Identify is
	// called again after five seconds. Where it takes longer than that, the context is made
	// without its result.
	Identify func(principal string) (uid, gid uint32, groups []uint32, ok bool, err error)
	// MaxContexts bounds the contexts (default 65,536), of which each takes ContextSize
	// at most. MaxPerAddress and MaxPerPrincipal bound those of one peer address, and of
	// one principal that calls from many addresses (default a quarter of MaxContexts):
	// beyond that its least recently used context makes room.
	MaxContexts, MaxPerAddress, MaxPerPrincipal int
	// Idle is how long a context that is not used is kept (default one hour).
	Idle time.Duration
	// Notify, where set, is told of what was refused. It must not block, and bounds
	// what it logs itself: strangers can have it called. The Event is valid during
	// the call only.
	Notify func(e *Event)
}

// Bounds of contexts that are half made: of all, of one address, and for how long.
const (
	maxHalves        = 1024
	maxHalvesOfOne   = 64
	halfLife         = 30 * time.Second
	sweepEvery       = time.Minute
	defaultContexts  = 64 << 10
	defaultShare     = 4
	defaultIdleHours = 1
)

func (c *Config) defaults() {
	if c.MaxContexts <= 0 {
		c.MaxContexts = defaultContexts
	}
	if c.MaxPerAddress <= 0 {
		c.MaxPerAddress = max(c.MaxContexts/defaultShare, 1)
	}
	if c.MaxPerPrincipal <= 0 {
		c.MaxPerPrincipal = max(c.MaxContexts/defaultShare, 1)
	}
	if c.Idle <= 0 {
		c.Idle = defaultIdleHours * time.Hour
	}
}

// A Server is RPCSEC_GSS for an rpc.Server, to be registered by its Protect. It has
// the contexts of all connections: a client may make one over TCP and use it over
// RDMA. All methods may be called from any goroutine.
type Server struct {
	cfg        Config
	mechanisms []served
	contexts   *table // established
	halves     *table // half made
	count      counters
	refresher  refresher
	identities identities
	// steps has an element for each token that a mechanism takes at the moment. There are
	// half as many at once as there are processors.
	steps chan struct{}

	mu     sync.Mutex
	timer  *time.Timer // sweeps; nil where there is nothing to sweep
	closed bool
}

// served is a mechanism and its name.
type served struct {
	Mechanism
	oid []byte
}

// New returns a Server without contexts. It runs until Close.
func New(cfg Config) *Server {
	cfg.defaults()
	s := &Server{
		cfg:      cfg,
		contexts: newTable(cfg.MaxContexts, cfg.MaxPerAddress, cfg.MaxPerPrincipal, cfg.Idle),
		halves:   newTable(maxHalves, maxHalvesOfOne, maxHalves+1, halfLife), // their principals are not known
		steps:    make(chan struct{}, max(runtime.GOMAXPROCS(0)/2, 1)),
	}
	for _, m := range cfg.Mechanisms {
		s.mechanisms = append(s.mechanisms, served{m, m.OID()})
	}
	return s
}

// Close forgets all contexts, and returns when nothing runs any more.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
	s.mu.Unlock()
	s.contexts.clear()
	s.halves.clear()
	s.refresher.close()
}

// mechanism finds the one that a token is of.
func (s *Server) mechanism(token []byte) (served, bool) {
	oid, ok := mechanismOf(token)
	if !ok {
		return served{}, false
	}
	for _, m := range s.mechanisms {
		if bytes.Equal(m.oid, oid) {
			return m, true
		}
	}
	return served{}, false
}

// keep has contexts swept from now on.
func (s *Server) keep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer == nil && !s.closed {
		s.timer = time.AfterFunc(sweepEvery, s.sweep)
	}
}

// sweep forgets contexts that are over, and has identities that are old asked for anew: a context
// that is used again after a while acts as its principal's user does by then.
func (s *Server) sweep() {
	now := time.Now()
	s.count.expired.Add(uint64(s.contexts.sweep(now)))
	s.halves.sweep(now)
	s.refreshOld(now)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed || s.timer == nil:
	case s.contexts.len()+s.halves.len() > 0:
		// Counted under the lock: a function that adds one calls keep afterwards.
		s.timer.Reset(sweepEvery)
	default:
		s.timer = nil
	}
}

// Verify implements rpc.Protection.
func (s *Server) Verify(a *rpc.Arrived) (rpc.Guard, rpc.Outcome) {
	var c credential
	switch err := c.parse(a.Header.Cred.Body); {
	case err == errVersion:
		return nil, s.otherVersion(a, &c)
	case err != nil:
		return nil, s.badCredential(a, "its credential is malformed")
	}
	switch c.proc {
	case procData, procDestroy:
		return s.verifyCall(a, &c)
	case procInit, procContinueInit:
		return s.verifyMaking(a, &c)
	}
	return nil, s.badCredential(a, "its credential has a procedure that RFC 2203 does not have")
}

// otherVersion refuses versions 2 and 3, and those to come: AUTH_REJECTEDCRED (RFC
// 2203 §5.2.3.2), but AUTH_BADCRED for a context of ours (§5.3.3.3).
func (s *Server) otherVersion(a *rpc.Arrived, c *credential) rpc.Outcome {
	s.note(OtherVersion, a.Conn.Peer, "", "a call under another version of RPCSEC_GSS than 1")
	if s.contexts.find(c.handle) != nil {
		return rpc.Denied(rpc.AuthBadCred)
	}
	return rpc.Denied(rpc.AuthRejectedCred)
}

func (s *Server) badCredential(a *rpc.Arrived, cause string) rpc.Outcome {
	s.note(BadCredential, a.Conn.Peer, "", "a call was refused: "+cause)
	return rpc.Denied(rpc.AuthBadCred)
}

// signedHeader is what the verifier of a call signs: all from the XID to the end of
// the credential (RFC 2203 §5.3.1).
func signedHeader(a *rpc.Arrived) []byte {
	n := len(a.Header.Verf.Body)
	return a.Message[:a.Header.Size-2*4-n-xdr.Pad(n)]
}

// verifyCall judges a call of a context: its handle and its header first, and what
// the header says only then (RFC 2203 §5.3.3.1, §5.4).
func (s *Server) verifyCall(a *rpc.Arrived, c *credential) (rpc.Guard, rpc.Outcome) {
	if !goodService(c.service) {
		return nil, s.badCredential(a, "its credential asks for a service that RFC 2203 does not have")
	}
	x := s.contexts.find(c.handle)
	if x == nil {
		s.note(UnknownHandle, a.Conn.Peer, "", "a call names a context that is not known: the client makes another")
		return nil, rpc.Denied(rpc.GSSCredProblem)
	}
	g := takeGuard()
	g.set(x.ctx, c.service, c.seq)
	if a.Header.Verf.Flavor != rpc.AuthGSS || !g.verify(a.Header.Verf.Body, signedHeader(a)) {
		g.Release()
		s.note(BadHeader, a.Conn.Peer, x.principal, "the checksum of a call's header is wrong")
		return nil, rpc.Denied(rpc.GSSCredProblem)
	}
	now := time.Now()
	if out := s.admit(a, c, x, now); out != rpc.Done {
		g.Release()
		return nil, out
	}
	x.touch(now)
	x.fill(&a.Cred, c.service)
	if who := x.who.Load(); now.After(who.until) {
		s.refresh(x)
	}
	s.count.calls.Add(1)
	g.server, g.x, g.peer = s, x, a.Conn.Peer
	if c.proc == procDestroy {
		return &destroyer{g}, rpc.Done
	}
	return g, rpc.Done
}

// admit judges a call whose header is the caller's own.
func (s *Server) admit(a *rpc.Arrived, c *credential, x *serverContext, now time.Time) rpc.Outcome {
	switch {
	case c.seq > maxSeq:
		s.note(SeqExhausted, a.Conn.Peer, x.principal, "a context has had all its sequence numbers: the client makes another")
		return rpc.Denied(rpc.GSSCtxProblem)
	case !now.Before(x.expiry):
		if s.contexts.remove(x) {
			s.count.expired.Add(1)
		}
		s.note(Stale, a.Conn.Peer, x.principal, "a context's ticket has ended: the client makes another")
		return rpc.Denied(rpc.GSSCtxProblem)
	case c.proc == procDestroy && a.Header.Procedure != nullProcedure:
		return s.badCredential(a, "it destroys a context, and is not of procedure NULL")
	}
	switch x.window.see(c.seq) {
	case repeated:
		s.note(Replayed, a.Conn.Peer, x.principal, "a call came again under its sequence number, and was dropped")
		return rpc.Dropped
	case below:
		s.note(BelowWindow, a.Conn.Peer, x.principal, "a call came under a sequence number that is too old, and was dropped with its connection")
		return rpc.DropAndEnd
	}
	return rpc.Done
}

// fill writes the caller to a credential.
func (x *serverContext) fill(c *rpc.Cred, service rpc.GSSService) {
	c.Principal, c.Target, c.Mechanism, c.GSS = x.principal, x.own, x.mechanism, service
	x.who.Load().fill(c)
}
