package rpc

import (
	"context"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/census"
	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// Config bounds a Server.
type Config struct {
	// Workers is the most goroutines that calls which may block run on, for
	// all lanes together (default 1024), but that each lane has one at least;
	// LaneWorkers is the most for the calls of one client address in one lane (64). Those
	// of all addresses have twice as many.
	Workers, LaneWorkers int
	// IdleWorker is how long a goroutine waits for another call before it
	// ends (default 10 s).
	IdleWorker time.Duration
	// LendWithin is how soon calls that may block have to follow each other for them
	// to run on the goroutine that received them (default 5 ms): those that come more rarely
	// would cost more, by the goroutine that watches over them, than they save.
	LendWithin time.Duration
	// ReplyCacheBytes bounds the memory of the duplicate-request cache (default
	// 64 MiB). The last 64 replies of 1,000 connections take 16 to 38 MiB.
	ReplyCacheBytes int64
	// Pool, where set, is what the transports take payload memory from: what
	// the calls of one lane hold of it is bounded (Judgement.Lane).
	Pool *mem.Pool
	// Observe, where set, is told of each call's end, on the goroutine that
	// ends it. It must not block. The Event is valid during the call only.
	Observe func(e *Event)
	// Working, where set, is told that a goroutine of the executor begins a call. It must
	// not block.
	Working func()
	// Panicked, where set, is told of a panic of a Program, once for each place
	// that one came from (Stats.Panics counts all). It is called on the
	// goroutine that panicked, and must not block.
	Panicked func(p *Panic)
}

func (c *Config) defaults() {
	def := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	def(&c.Workers, 1024)
	def(&c.LaneWorkers, 64)
	if c.ReplyCacheBytes <= 0 {
		c.ReplyCacheBytes = 64 << 20
	}
	if c.IdleWorker <= 0 {
		c.IdleWorker = 10 * time.Second
	}
	if c.LendWithin <= 0 {
		c.LendWithin = 5 * time.Millisecond
	}
}

// A Server answers calls to its programs, by whatever transport they come. All
// methods may be called from any goroutine.
type Server struct {
	cfg     Config
	connID  atomic.Uint64
	mu      sync.Mutex // Register, Protect and newGroup
	table   atomic.Pointer[table]
	groups  atomic.Pointer[laneGroups]
	replies *replyCache
	exec    *executor

	protections atomic.Pointer[protections]

	inProgress atomic.Int64
	draining   atomic.Bool
	closed     atomic.Bool
	// drained gets a token when draining and the last call in progress ended.
	drained chan struct{}

	unknown         counts
	inPlace, handed atomic.Uint64
	overflows       atomic.Uint64
	panics          panics
}

// NewServer returns a server without programs. It runs until Close.
func NewServer(cfg Config) *Server {
	cfg.defaults()
	s := &Server{cfg: cfg, drained: make(chan struct{}, 1)}
	s.table.Store(&table{})
	s.groups.Store(&laneGroups{})
	s.protections.Store(&protections{})
	s.replies = newReplyCache(cfg.ReplyCacheBytes)
	s.exec = newExecutor(&cfg, s.runBlocking, s.abandon)
	return s
}

// NewConn is for transports: a connection that calls will come by.
func (s *Server) NewConn(peer, local netip.AddrPort, transport string, privileged bool) *Conn {
	return &Conn{
		ID: s.connID.Add(1), Peer: peer, Local: local,
		Transport: transport, Privileged: privileged,
		client: census.Client(peer.Addr()), server: s,
	}
}

// Drain lets no new call in: what comes is dropped, so that its caller sends it
// again to the server that serves next. It returns when the calls in progress are
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
	// Other callers of Drain wait for the same.
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
func (s *Server) Close() { _ = s.CloseWithin(context.Background()) }

// CloseWithin is Close for as long as ctx lasts: then it returns the context's
// cause, and leaves behind what still runs (Lanes).
func (s *Server) CloseWithin(ctx context.Context) error {
	s.draining.Store(true)
	s.closed.Store(true)
	return s.exec.close(ctx)
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
	server *Server
	// What the call names, as far as it is served.
	number    *numberRow
	program   Service
	row       *procedureRow
	procedure *Procedure
	// handler, where not nil, serves the call instead of the program.
	handler Handler

	// guard protects the call; its overhead is zero where there is none.
	guard    Guard
	overhead Overhead
	// sealed: the protection was not taken off yet. from and behind are what it
	// leaves around the arguments.
	sealed       bool
	from, behind int

	judged Judgement
	plan   Plan

	// w is the reply's writer, once it was begun; results is where they start.
	w       *xdr.Writer
	results int
	mark    mark
	// waits: the call was handed on before it was tried.
	waits bool
	// close: the connection ends with the call.
	close bool
	// entry is the call's in the duplicate-request cache, while it runs.
	entry *reply
	// apart: the call waits for the end of one that looks the same, and then begins.
	apart bool
	// took is when Serve got the call, where the server has an observer.
	took time.Time
	// next is for lists of calls that are over, or wait for the end of another one.
	next *Call
	// place is the executor's.
	place lanePlace
	// lender is set while the goroutine that received the call may run it though it
	// blocks.
	lender *Lender
}

// ended counts the end of c, and tells the observer. It comes before the way is
// used: afterwards c is the transport's again.
func (s *Server) ended(c *Call, how Status) {
	st := &c.state
	if st.guard != nil {
		st.guard.Release()
		st.guard = nil
	}
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
