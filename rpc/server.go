package rpc

import (
	"cmp"
	"context"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/clientaddr"
	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// Config configures a Server.
type Config struct {
	// Workers is the largest number of goroutines for calls that may block, over all lanes (default
	// 1024). A lane without a goroutine gets one even beyond that. LaneWorkers is the largest
	// number of goroutines for the calls of one client address in one lane (default 64). All
	// addresses together may have twice as many in a lane.
	Workers, LaneWorkers int
	// Processors is the number of processors that calls may keep busy (default GOMAXPROCS). If
	// GOMAXPROCS is larger, the Go runtime finds new input while calls keep Processors busy.
	Processors int
	// Ready returns the number of goroutines that are ready to run and wait for a processor. If
	// Ready is nil, the executor asks the Go runtime. While the number exceeds Processors, fewer
	// calls than Workers run (see pace).
	Ready func() int
	// IdleWorker is how long a worker waits for another call before it ends (default 10 s).
	IdleWorker time.Duration
	// LendWithin (default 5 ms) limits the use of Turns (see Turn). A call that would block may run
	// as a Turn only if another such call came less than LendWithin earlier, or while the executor
	// still watches Turns. If such calls are rarer, the goroutine that watches Turns costs more
	// than Turns save.
	LendWithin time.Duration
	// ReplyCacheBytes limits the memory of the duplicate-request cache (default 64 MiB). The last
	// 64 replies of each of 1,000 connections together take 16 to 38 MiB.
	ReplyCacheBytes int64
	// Pool, if not nil, is the pool from which the transports take payload memory. The Server then
	// limits how much of it the calls of one lane use together (Judgement.Lane).
	Pool *mem.Pool
	// Observe, if not nil, is called at the end of each call, on the goroutine that ends it. It
	// must not block. The Event is valid only during Observe.
	Observe func(e *Event)
	// Working, if not nil, is called when a worker (a goroutine of the executor) begins a call. It
	// must not block.
	Working func()
	// Panicked, if not nil, is called when a Program panics. It is called only for the first panic
	// at each place in the code, and for at most 64 places; Stats.Panics counts all panics. It runs
	// on the goroutine that panicked, and must not block.
	Panicked func(p *Panic)
}

func (c *Config) defaults() {
	c.Workers = cmp.Or(max(c.Workers, 0), 1024)
	c.LaneWorkers = cmp.Or(max(c.LaneWorkers, 0), 64)
	c.Processors = cmp.Or(max(c.Processors, 0), runtime.GOMAXPROCS(0))
	c.ReplyCacheBytes = cmp.Or(max(c.ReplyCacheBytes, 0), 64<<20)
	c.IdleWorker = cmp.Or(max(c.IdleWorker, 0), 10*time.Second)
	c.LendWithin = cmp.Or(max(c.LendWithin, 0), 5*time.Millisecond)
}

// A Server answers calls to its programs, over any transport. All methods may be called from any
// goroutine.
type Server struct {
	cfg     Config
	connID  atomic.Uint64
	mu      sync.Mutex // held by Register, Protect, SetFallback and newGroup
	table   atomic.Pointer[table]
	groups  atomic.Pointer[laneGroups]
	replies *replyCache
	exec    *executor

	protections atomic.Pointer[protections]

	inProgress atomic.Int64
	draining   atomic.Bool
	closed     atomic.Bool
	// drained receives a value when the Server drains and the last call in progress has ended.
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

// NewConn makes the Conn of a new connection. Transports call it.
func (s *Server) NewConn(peer, local netip.AddrPort, transport string, privileged bool) *Conn {
	return &Conn{
		ID: s.connID.Add(1), Peer: peer, Local: local,
		Transport: transport, Privileged: privileged,
		client: clientaddr.Of(peer.Addr()), server: s,
	}
}

// Drain makes the Server drop new calls, so that their clients send them to the server that is
// started next. It returns nil when all calls in progress have passed their replies to their Ways.
// If ctx ends first, it returns the context's cause.
func (s *Server) Drain(ctx context.Context) error {
	s.draining.Store(true)
	for s.inProgress.Load() != 0 {
		select {
		case <-s.drained:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	// Wake other callers of Drain as well.
	s.wakeDrain()
	return nil
}

func (s *Server) wakeDrain() {
	select {
	case s.drained <- struct{}{}:
	default:
	}
}

// Close drops all waiting and new calls, and returns when the running calls have ended.
func (s *Server) Close() { _ = s.CloseWithin(context.Background()) }

// CloseWithin is Close with a time limit: if ctx ends while calls still run, it returns the
// context's cause. Lanes then returns the lanes of these calls.
func (s *Server) CloseWithin(ctx context.Context) error {
	s.draining.Store(true)
	s.closed.Store(true)
	return s.exec.close(ctx)
}

// enter counts a call as in progress and returns true. If the Server drains, it returns false.
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

// callState is the Server's data in a Call.
type callState struct {
	server *Server
	// These are the table rows of the call's program number, version and procedure. A row is nil if
	// the Server does not serve it.
	number    *numberRow
	program   Service
	row       *procedureRow
	procedure *Procedure
	// handler, if not nil, serves the call instead of the program.
	handler Handler

	// guard protects the call. Without a guard, overhead is zero.
	guard    Guard
	overhead Overhead
	// sealed is true while the arguments are still protected. from and behind are the numbers of
	// bytes that Unwrap left before and after the arguments.
	sealed       bool
	from, behind int

	judged Judgement
	plan   Plan

	// w is the reply's writer, or nil before there is one. results is the offset of the results in
	// it.
	w       *xdr.Writer
	results int
	mark    mark
	// waits is true if the call is in the executor and has not begun.
	waits bool
	// close is true if the server closes the connection at the end of the call.
	close bool
	// entry is the call's entry in the duplicate-request cache while the call runs.
	entry *reply
	// apart is true if the call waits for another client's call with the same replyKey, and is
	// executed after it.
	apart bool
	// waiter is data of the duplicate-request cache.
	waiter waiter
	// took is the time at which Serve was called. It is set if Config.Observe is not nil.
	took time.Time
	// place is data of the executor.
	place lanePlace
	// lender is not nil while the goroutine that received the call may run it as a Turn.
	lender *Lender
}

// ended counts the end of c, releases its Guard, and calls Config.Observe. The server calls it
// before Send, Refuse or Drop of the Way, because the transport may reuse c after these.
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
