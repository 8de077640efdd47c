package rpc

import (
	"context"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdmad/nfsrdmad/mem"
)

// Config bounds a Server.
type Config struct {
	// Workers is the most goroutines that calls which may block run on, for
	// all lanes together (default 1024); LaneWorkers for one lane (64).
	Workers, LaneWorkers int
	// IdleWorker is how long a goroutine waits for another call before it
	// ends (default 10 s).
	IdleWorker time.Duration
	// ReplyCacheEntries and ReplyCacheBytes bound the duplicate-request cache
	// (defaults 8192 and 8 MiB).
	ReplyCacheEntries int
	ReplyCacheBytes   int64
	// Pool, where set, is what the transports take payload memory from: what
	// the calls of one lane hold of it is bounded (Laner).
	Pool *mem.Pool
	// Observe, where set, is told of each call's end, on the goroutine that
	// ends it. It must not block. The Event is valid during the call only.
	Observe func(e *Event)
}

func (c *Config) defaults() {
	def := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	def(&c.Workers, 1024)
	def(&c.LaneWorkers, 64)
	def(&c.ReplyCacheEntries, 8192)
	if c.ReplyCacheBytes <= 0 {
		c.ReplyCacheBytes = 8 << 20
	}
	if c.IdleWorker <= 0 {
		c.IdleWorker = 10 * time.Second
	}
}

// A Server answers calls to its programs, by whatever transport they come. All
// methods may be called from any goroutine.
type Server struct {
	cfg     Config
	connID  atomic.Uint64
	mu      sync.Mutex // Register and newGroup
	table   atomic.Pointer[table]
	groups  atomic.Pointer[laneGroups]
	replies *replyCache
	exec    *executor

	inProgress atomic.Int64
	draining   atomic.Bool
	closed     atomic.Bool
	// drained gets a token when draining and the last call in progress ended.
	drained chan struct{}

	unknown         counts
	inPlace, handed atomic.Uint64
	overflows       atomic.Uint64
}

// NewServer returns a server without programs. It runs until Close.
func NewServer(cfg Config) *Server {
	cfg.defaults()
	s := &Server{cfg: cfg, drained: make(chan struct{}, 1)}
	s.table.Store(&table{})
	s.groups.Store(&laneGroups{})
	s.replies = newReplyCache(cfg.ReplyCacheEntries, cfg.ReplyCacheBytes)
	s.exec = newExecutor(&cfg, s.runBlocking, s.abandon)
	return s
}

// NewConn is for transports: a connection that calls will come by.
func (s *Server) NewConn(peer, local netip.AddrPort, transport string, privileged bool) *Conn {
	return &Conn{
		ID: s.connID.Add(1), Peer: peer, Local: local,
		Transport: transport, Privileged: privileged,
		done: make(chan struct{}),
	}
}

// Drain lets no new call in: what comes is dropped, so that its caller sends it
// again to whoever serves next. It returns when the calls in progress are
// answered, which means handed to their ways, or with the context's cause.
func (s *Server) Drain(ctx context.Context) error {
	s.draining.Store(true)
	for s.inProgress.Load() != 0 {
		select {
		case <-s.drained:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	// Whoever else drains waits for the same.
	s.wakeDrain()
	return nil
}

func (s *Server) wakeDrain() {
	select {
	case s.drained <- struct{}{}:
	default:
	}
}

// Close drops what waits for the executor, and everything that comes, and
// returns when the calls that run now have ended.
func (s *Server) Close() {
	s.draining.Store(true)
	s.closed.Store(true)
	s.exec.close()
}

// enter counts a call in, unless the server drains.
func (s *Server) enter() bool {
	s.inProgress.Add(1)
	if !s.draining.Load() {
		return true
	}
	s.leave()
	return false
}

func (s *Server) leave() {
	if s.inProgress.Add(-1) == 0 && s.draining.Load() {
		s.wakeDrain()
	}
}

// callState is what the server keeps in a Call.
type callState struct {
	server  *Server
	program *programRow
	row     *procedureRow // nil: the call named no procedure served
	plan    Plan
	// entry is the call's in the duplicate-request cache, while it runs.
	entry *replyEntry
	// took is when Serve got the call, where somebody observes.
	took time.Time
	// next and turn belong to the executor.
	next *Call
	lane *lane
}

// ended counts the end of c, and tells the observer. It comes before the way is
// used: afterwards c is the transport's again.
func (s *Server) ended(c *Call, how Status) {
	st := &c.state
	if st.row != nil {
		st.row.counts[how].Add(1)
	} else {
		s.unknown[how].Add(1)
	}
	if s.cfg.Observe == nil {
		return
	}
	e := Event{
		Conn: c.Conn, Status: how,
		Program: c.Header.Program, Version: c.Header.Version, Procedure: c.Header.Procedure,
	}
	if st.row != nil {
		e.Name = st.row.Name
	}
	if !st.took.IsZero() {
		e.Nanoseconds = int64(time.Since(st.took))
	}
	s.cfg.Observe(&e)
}
