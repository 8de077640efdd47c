package rpc

import (
	"cmp"
	"context"
	"maps"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/clientaddr"
	"github.com/nfsrdmad/nfsrdmad/mem"
)

// Config configures a Server.
type Config struct {
	// Workers is the largest number of goroutines for calls that may block, over all lanes (default
	// 1024). A lane without a goroutine gets one even beyond that. The calls of all client
	// addresses may have twice LaneWorkers in one lane (default 64): an address that is alone has 9/16
	// of them (72), and a site that is alone three quarters (fair.Lent).
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
	// must not block. The Event is valid only during Observe. SetObserve sets Observe later.
	Observe func(e *Event)
	// If Slow is above 0, TookLong is called at the end of each call that took longer, counted from when it first waited,
	// on the goroutine that ends it. It must not block. The Delay is valid only during TookLong. SetSlow changes Slow.
	Slow     time.Duration
	TookLong func(d *Delay)
	// Working, if not nil, is called when a worker begins a call. It must not block.
	Working func()
	// Panicked, if not nil, is called for the first panic of a Program at each place in the code, and
	// for at most 64 places, on the goroutine that panicked. It must not block.
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
	mu      sync.Mutex // held by change and newGroup
	table   atomic.Pointer[table]
	groups  atomic.Pointer[laneGroups]
	replies *replyCache
	exec    *executor
	apart   detachedCalls
	uses    uses
	putOff  putOffs
	tracers atomic.Pointer[[]*tracer]    // nil if there are none
	slow    atomic.Int64                 // Config.Slow in nanoseconds
	observe atomic.Pointer[func(*Event)] // Config.Observe; nil without one

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
	s.table.Store(&table{protections: make(map[Flavor]Protection)})
	s.groups.Store(&laneGroups{})
	s.SetSlow(cfg.Slow)
	if cfg.Observe != nil {
		s.SetObserve(cfg.Observe)
	}
	s.replies = newReplyCache(cfg.ReplyCacheBytes)
	s.exec = newExecutor(&cfg, s.runBlocking, s.abandon)
	return s
}

// NewConn makes the Conn of a new connection. Transports call it.
func (s *Server) NewConn(peer, local netip.AddrPort, transport string, privileged bool) *Conn {
	c := &Conn{
		ID: s.connID.Add(1), Peer: peer, Local: local,
		Transport: transport, Privileged: privileged,
		client: clientaddr.Of(peer.Addr()), server: s, began: time.Now(),
	}
	s.uses.enter(c)
	return c
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

// If laneGroups has at least maxIdleLanes groups, newGroup deletes the idle ones (mem.Group.Idle)
// before it adds another.
const maxIdleLanes = 64

// laneGroups holds the memory group of each lane. A lane stands for one resource that calls may
// wait for (Judgement.Lane). The map is immutable: a change replaces it.
type laneGroups map[any]*mem.Group

// newGroup returns the group of a lane. It adds one if the lane has none.
func (s *Server) newGroup(lane any) *mem.Group {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := maps.Clone(*s.groups.Load())
	if g := now[lane]; g != nil {
		return g
	}
	if len(now) >= maxIdleLanes {
		// If another goroutine has just given an idle group to a call, the group still limits that
		// call's memory, but later calls of the lane get a new group.
		maps.DeleteFunc(now, func(_ any, g *mem.Group) bool { return g.Idle() })
	}
	g := s.cfg.Pool.NewGroup()
	now[lane] = g
	s.groups.Store(&now)
	return g
}
