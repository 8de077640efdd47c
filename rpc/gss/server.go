package gss

import (
	"cmp"
	"runtime"
	"sync"
	"time"
)

// ContextSize is an upper bound for the memory of a context, in bytes, with Kerberos keys for all
// services and the longest principal.
const ContextSize = 8 << 10

// Config configures a Server.
type Config struct {
	// Mechanisms make the contexts.
	Mechanisms []Mechanism
	// Identify returns a principal's user number and groups on this machine. ok is false if the
	// principal has none: the caller is then anonymous (rpc.Cred.Anonymous). If Identify is nil,
	// all callers are anonymous. The Server calls Identify when a context is made, on a goroutine
	// that may block. The Server calls Identify again in the background when the result is ten
	// minutes old, or 30 seconds if the principal has no numbers. groups must not be changed
	// afterwards.
	//
	// An error means that the principal cannot be identified at present. The Server then uses the
	// last result until that is an hour old. Without such a result, rpc.Cred.Unsure is set. The
	// Server calls Identify again after five seconds. If Identify takes longer than five seconds,
	// the Server makes the context as after an error.
	Identify func(principal string) (uid, gid uint32, groups []uint32, ok bool, err error)
	// MaxContexts is the largest number of contexts (default 65,536). Each takes ContextSize bytes
	// at most. MaxPerAddress is the largest number for one peer address, and MaxPerPrincipal that
	// for one principal at all addresses (default of each: a quarter of MaxContexts). If an address
	// or a principal has reached its limit, a new context makes the Server delete another of that
	// address or principal, which was not used for long. If MaxContexts is reached, the Server
	// deletes a context of an address with the most contexts.
	MaxContexts, MaxPerAddress, MaxPerPrincipal int
	// Idle is the time after which the Server deletes an unused context (default one hour).
	Idle time.Duration
	// Notify, if not nil, is called for each refusal, and for each other event with a Reason. It
	// must not block. If it writes a log, it has to limit the log's size, because any peer can
	// cause refusals. The Event is valid only during the call.
	Notify func(e *Event)
}

// maxHalves is the largest number of half-made contexts, and maxHalvesOfOne the largest number of
// them for one address. The Server deletes a half-made context after halfLife. It calls sweep every
// sweepEvery. The other constants are defaults of Config: one address, or one principal, may have
// MaxContexts/defaultShare contexts.
const (
	maxHalves       = 1024
	maxHalvesOfOne  = 64
	halfLife        = 30 * time.Second
	sweepEvery      = time.Minute
	defaultContexts = 64 << 10
	defaultShare    = 4
	defaultIdle     = time.Hour
)

func (c *Config) defaults() {
	c.MaxContexts = cmp.Or(max(c.MaxContexts, 0), defaultContexts)
	share := max(c.MaxContexts/defaultShare, 1)
	c.MaxPerAddress = cmp.Or(max(c.MaxPerAddress, 0), share)
	c.MaxPerPrincipal = cmp.Or(max(c.MaxPerPrincipal, 0), share)
	c.Idle = cmp.Or(max(c.Idle, 0), defaultIdle)
}

// A Server implements RPCSEC_GSS for an rpc.Server. Register it with rpc.Server.Protect. It has the
// contexts of all connections: a client may make a context over TCP and use it over RDMA. All
// methods may be called from any goroutine.
type Server struct {
	cfg        Config
	contexts   *table // established contexts
	halves     *table // half-made contexts
	count      counters
	identities identities
	// steps is a semaphore: it has an element for each Acceptor.Accept that runs now. Half as many
	// may run at once as there are processors, but at least one.
	steps chan struct{}

	mu     sync.Mutex
	timer  *time.Timer // runs sweep; nil if there is nothing to sweep
	closed bool
}

// New returns a Server without contexts. It runs until Close.
func New(cfg Config) *Server {
	cfg.defaults()
	s := &Server{
		cfg:      cfg,
		contexts: newTable(cfg.MaxContexts, cfg.MaxPerAddress, cfg.MaxPerPrincipal, cfg.Idle),
		halves:   newTable(maxHalves, maxHalvesOfOne, maxHalves+1, halfLife), // no bound for one principal, because half-made contexts have none
		steps:    make(chan struct{}, max(runtime.GOMAXPROCS(0)/2, 1)),
	}
	s.identities.free.L = &s.identities.mu
	return s
}

// Close deletes all contexts, and returns when all goroutines of the Server have ended.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
	s.mu.Unlock()
	s.contexts.clear()
	s.halves.clear()
	s.identities.close()
}

// keep starts the timer for sweep, if it is not running.
func (s *Server) keep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer == nil && !s.closed {
		s.timer = time.AfterFunc(sweepEvery, s.sweep)
	}
}

// sweep deletes expired and unused contexts, and refreshes outdated identities. It refreshes them
// even without calls, so that the next call under an idle context already has the present user and
// group numbers.
func (s *Server) sweep() {
	now := time.Now()
	s.count.expired.Add(uint64(s.contexts.sweep(now)))
	s.halves.sweep(now)
	s.refreshOld()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed || s.timer == nil:
	case s.contexts.len()+s.halves.len() > 0:
		// The contexts are counted under the lock. A goroutine that adds one later calls keep,
		// which starts the timer again.
		s.timer.Reset(sweepEvery)
	default:
		s.timer = nil
	}
}
