package rpc

import (
	"context"
	"runtime"
	"runtime/metrics"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/fair"
	"github.com/nfsrdmad/nfsrdmad/internal/queue"
	"github.com/nfsrdmad/nfsrdmad/internal/turns"
)

// executor runs calls that may block, on a limited number of goroutines, its workers. A lane is the
// queue of calls that use one resource that may stall, such as a file system. The number of workers
// of each lane is limited, but a lane may always have one worker, so that a stalled lane does not
// stop other lanes (see may). While the processors are busy, fewer workers run calls (see pace). A
// lane serves its sites in turn, the client addresses of a site, and the connections of an address; of the lane's
// workers that other addresses do not use, one address may use half, and a site of those that other sites do not use
// (package turns). Lanes that wait for a worker are served in turn as well. When a connection ends, the executor
// drops its calls that have not begun.
type executor struct {
	run        func(*Call)
	abandon    func(*Call)
	working    func() // Config.Working
	workers    int    // largest number of workers, over all lanes
	perLane    int
	idleFor    time.Duration
	lendWithin time.Duration

	mu      sync.Mutex
	pace    pace
	lanes   map[any]*lane
	unused  []*lane                     // lanes without calls, for reuse of their memory
	waiting queue.List[lane, *lane]     // lanes with waiting calls and fewer workers than perLane
	active  int                         // lanes that have workers
	idle    queue.List[worker, *worker] // in the order in which they became idle
	busy    queue.List[worker, *worker]
	closed  bool
	wg      sync.WaitGroup
	// executed has the executions that have ended, and queued the waits for a worker that have; Now is 0 in both.
	executed, queued WaitStats

	// The following fields are for calls that run on the goroutine that received them: see Turn.
	out      queue.List[Turn, *Turn] // the running Turns that are not late
	watching bool
	quiet    int       // ticks of watch since the last Turn began
	asked    time.Time // when lend was last called
	// lends counts all Turns. replaced counts the Turns that became late: the call ran so long that
	// the connection got another receiving goroutine.
	lends, replaced uint64
}

// A lane has the calls for one resource. It exists as long as it has calls.
type lane struct {
	queue.Links[lane] // links in executor.waiting
	key               any
	line              turns.Line[*Conn, *Call] // it lends workers
	waits             bool                     // the lane is on executor.waiting
	late              int                      // running Turns that are late
	stuck             int                      // stuck workers, while the pace is slowed
}

// lanePlace is an entry in a lane's line (package turns). The line has an entry for each waiting
// call. It also has one for each client address, which counts the running calls of that address.
type lanePlace = turns.Place[*Conn, *Call]

// A worker is a goroutine that runs calls.
type worker struct {
	queue.Links[worker]            // links in executor.idle or executor.busy
	next                chan *Call // delivers the next call; a nil call ends the worker
	// If the worker is busy, lane is the lane of its call, address is the entry of the client
	// address that sent the call, and since is the time at which the call began. Otherwise lane is
	// nil.
	lane    *lane
	address *lanePlace
	since   time.Time
	facts   facts // of its call
	part    part
}

func newExecutor(cfg *Config, run, abandon func(*Call)) *executor {
	x := &executor{
		run: run, abandon: abandon, working: cfg.Working,
		workers: cfg.Workers, perLane: 2 * cfg.LaneWorkers, idleFor: cfg.IdleWorker, lendWithin: cfg.LendWithin,
		lanes: make(map[any]*lane),
	}
	x.pace.open(cfg)
	return x
}

// submit queues c in the lane that key names, and gives that lane another worker if it may have
// one. It does not block.
func (x *executor) submit(c *Call, key any) {
	now := time.Now()
	x.mu.Lock()
	if x.closed || c.lost() {
		x.mu.Unlock()
		x.abandon(c)
		return
	}
	l := x.enqueue(c, key, now)
	x.check(now)
	if !x.give(l, now) {
		x.settle(l)
	}
	x.mu.Unlock()
}

// enqueue queues c in the lane that key names, and returns that lane.
func (x *executor) enqueue(c *Call, key any, now time.Time) *lane {
	st := &c.state
	st.leaves(now)
	if st.worker, st.since = nil, now; st.first.IsZero() {
		st.first = now
	}
	l := x.lanes[key]
	if l == nil {
		if n := len(x.unused); n > 0 {
			l, x.unused = x.unused[n-1], x.unused[:n-1]
		} else {
			l = new(lane)
		}
		l.key, l.stuck = key, 0
		x.lanes[key] = l
	}
	p := &st.place
	p.Value = c
	c.Conn.waitsIn(l)
	l.line.Join(p, c.Conn.client, c.Conn)
	return l
}

// mostLanes is the number of lanes at which Conn.waitsIn first drops those without waiting calls.
const mostLanes = 8

// waitsIn notes that a call of c is about to wait in l. The caller holds executor.mu.
func (c *Conn) waitsIn(l *lane) {
	if slices.Contains(c.lanes, l) {
		return
	}
	if len(c.lanes) >= mostLanes && len(c.lanes) == cap(c.lanes) {
		c.lanes = slices.DeleteFunc(c.lanes, func(l *lane) bool { return !l.line.Waits(c.client, c) })
	}
	c.lanes = append(c.lanes, l)
}

// settle is called after the calls of l have changed. It puts l on the list waiting or takes it off,
// and removes a lane without calls.
func (x *executor) settle(l *lane) {
	queued, running := l.line.Len(), l.line.Held()
	if waits := queued > 0 && running < x.perLane; waits && !l.waits {
		l.waits = true
		x.waiting.Add(l)
	} else if !waits && l.waits {
		l.waits = false
		x.waiting.Remove(l)
	}
	if queued+running == 0 {
		delete(x.lanes, l.key)
		l.key = nil
		x.unused = append(x.unused, l)
	}
}

// may reports whether a lane may have one more worker. The first worker of a lane is always
// allowed, even beyond x.workers, so that stalled lanes never stop another lane. Apart from that,
// lanes share the workers by the rule for units that only their holders give back (fair.Lent). While
// the pace is slowed, the same rule also holds for pace.most instead of x.workers, without the stuck
// workers.
func (x *executor) may(l *lane) bool {
	share := func(most, all, own int) bool {
		return all < most && own < int(fair.Lent(int64(most), int64(all-own), x.active))
	}
	all, own := x.busy.Len, l.line.Held()
	return own == 0 || share(x.workers, all, own) &&
		(!x.slowed() || share(x.pace.most, all-x.pace.stuck, own-l.stuck))
}

// give makes a worker run the next call of l: the one that became idle last or, if none is idle, a
// new one. It returns false if no call waits in l, or if l, or each of the client addresses that
// wait in it, already has as many workers as it may have.
func (x *executor) give(l *lane, now time.Time) bool {
	if !x.may(l) {
		return false
	}
	p, address := l.line.Take(x.perLane)
	if p == nil {
		return false
	}
	w := x.idle.Last
	if w != nil {
		x.idle.Remove(w)
	} else {
		w = &worker{next: make(chan *Call, 1)}
		x.wg.Add(1)
		go x.work(w)
	}
	x.begun(w, l, p.Value, address, now)
	w.next <- p.Value
	x.settle(l)
	return true
}

// hire gives another worker to the first of the waiting lanes that may have one. It returns false if
// there is none.
func (x *executor) hire(now time.Time) bool {
	for range x.waiting.Len {
		l := x.waiting.First
		x.waiting.Remove(l)
		x.waiting.Add(l)
		if x.give(l, now) {
			return true
		}
	}
	return false
}

// begun notes that w has the call c of lane l. address is what turns.Line.Take returned with the call.
func (x *executor) begun(w *worker, l *lane, c *Call, address *lanePlace, now time.Time) {
	w.lane, w.address, w.since, w.facts = l, address, now, c.facts()
	w.part.number, w.part.group, w.part.n = 0, 0, 0 // no call uses w yet, and describe holds x.mu
	if waited := now.Sub(c.state.since); waited > 0 {
		x.queued.end(waited)
	}
	c.state.worker = w
	c.state.was(Queued, WaitUnknown, now.Sub(c.state.since))
	c.state.since = now
	if x.busy.Add(w); l.line.Held() == 1 {
		x.active++
	}
}

// ended is the inverse of begun. It returns the lane of the call.
func (x *executor) ended(w *worker, now time.Time) *lane {
	x.executed.end(now.Sub(w.since))
	l := w.lane
	if l.line.GiveBack(w.address); l.line.Held() == 0 {
		x.active--
	}
	w.lane, w.address, w.facts = nil, nil, facts{}
	x.busy.Remove(w)
	x.settle(l)
	return l
}

// follow lets another call begin after one of l has ended. If l has calls and no worker, it comes
// first, because all other workers may be stalled. If l has no worker any more, the other lanes may have
// more than the one that it has left, because each of them has a larger part.
func (x *executor) follow(l *lane, now time.Time) {
	if l.line.Held() > 0 {
		x.hire(now)
	} else if !x.give(l, now) {
		for x.hire(now) {
		}
	}
}

// usualTurn is the turn of a call: after this time it gives way to calls that wait for a worker.
// While the pace is slowed, the turn is yieldAfter, because the calls then compete for processors.
// Otherwise they wait for disks, and an earlier end of the turn would only make them wait twice.
const usualTurn = 100 * time.Millisecond

func (x *executor) mustGiveWay(ran time.Duration) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.waiting.Len > 0 && (ran > usualTurn || x.slowed())
}

// forget drops the waiting calls of a connection that has ended.
func (x *executor) forget(of *Conn) {
	var left []*Call
	x.mu.Lock()
	for _, l := range of.lanes {
		before := len(left)
		l.line.Each(of.client, of, func(p *lanePlace) {
			if c := p.Value; c.lost() {
				l.line.Leave(p)
				left = append(left, c)
			}
		})
		if len(left) > before {
			x.settle(l)
		}
	}
	x.mu.Unlock()
	x.abandonAll(left)
}

func (x *executor) abandonAll(left []*Call) {
	for _, c := range left {
		x.abandon(c)
	}
}

// yieldAfter is the time after which a worker yields the processor, between two calls or between
// two operations of a call. Otherwise the Go runtime would let it use the processor for 10 ms. A
// shorter time would cost more: each yield wakes an idle processor, and may move the worker there.
const yieldAfter = 500 * time.Microsecond

// work runs the calls of w. It returns when the executor is closed, or when w got no call for
// idleFor. A worker that never waits yields the processor after yieldAfter.
func (x *executor) work(w *worker) {
	defer x.wg.Done()
	timer := time.NewTimer(x.idleFor)
	defer timer.Stop()
	yielded := time.Now()
	for c := <-w.next; c != nil; {
		if x.working != nil {
			x.working()
		}
		x.run(c)
		now := time.Now()
		x.mu.Lock()
		l := x.ended(w, now)
		if x.closed {
			x.mu.Unlock()
			return
		}
		x.idle.Add(w)
		x.follow(l, now)
		x.mu.Unlock()
		select {
		case c = <-w.next:
			if now.Sub(yielded) > yieldAfter {
				runtime.Gosched()
				yielded = time.Now()
			}
		default:
			timer.Reset(x.idleFor)
			c = x.await(w, timer.C)
			yielded = time.Now()
		}
	}
}

// await waits for the next call of an idle worker. It returns nil if the worker has to end.
func (x *executor) await(w *worker, timeout <-chan time.Time) *Call {
	select {
	case c := <-w.next:
		return c
	case <-timeout:
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	select {
	case c := <-w.next: // another goroutine has just given w a call, or closed the executor
		return c
	default:
		x.idle.Remove(w)
		return nil
	}
}

// close drops the waiting calls, and returns when all workers have ended. If ctx ends before that,
// close returns context.Cause(ctx), and calls may still run.
func (x *executor) close(ctx context.Context) error {
	x.mu.Lock()
	x.closed = true
	var left []*Call
	for _, l := range x.lanes {
		for p := l.line.Next(); p != nil; p = l.line.Next() {
			left = append(left, p.Value)
		}
		x.settle(l)
	}
	for w := x.idle.First; w != nil; w = x.idle.First {
		x.idle.Remove(w)
		w.next <- nil
	}
	x.mu.Unlock()
	x.abandonAll(left)
	ended := make(chan struct{})
	go func() {
		x.wg.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// inLanes returns the statistics of each lane.
func (x *executor) inLanes(now time.Time) []LaneStats {
	x.mu.Lock()
	defer x.mu.Unlock()
	oldest := make(map[*lane]time.Duration)
	for w := x.busy.First; w != nil; w = w.Next {
		oldest[w.lane] = max(oldest[w.lane], now.Sub(w.since))
	}
	all := make([]LaneStats, 0, len(x.lanes))
	for key, l := range x.lanes {
		all = append(all, LaneStats{Lane: key, Running: l.line.Held(), Queued: l.line.Len(), Oldest: oldest[l]})
	}
	return all
}

// count sets the executor's counters in st.
func (x *executor) count(st *Stats) {
	x.mu.Lock()
	defer x.mu.Unlock()
	st.Workers, st.Running = x.idle.Len+x.busy.Len, x.busy.Len
	st.Lent, st.Replaced = x.lends, x.replaced
	for _, l := range x.lanes {
		st.Queued += l.line.Len()
	}
	st.Waits[ForDisk], st.Waits[ForThread] = x.executed, x.queued
	st.Waits[ForDisk].Now, st.Waits[ForThread].Now = st.Running, st.Queued
}

// A pace adapts the number of workers that run calls to the load of the processors. Most calls that
// may block wait for disks, and need many workers. If they need processors instead, many workers
// delay each other and every call that arrives. So when more goroutines are ready to run than there
// are processors, fewer workers run calls, and the other calls wait in their lanes, where clients
// take turns. When no goroutine is ready to run, more workers run calls again. Threads that use the
// processors in system calls count as goroutines. executor.mu guards a pace.
type pace struct {
	most       int // number of workers that may run calls, without the stuck ones
	stuck      int // workers whose call has run for longer than stuckAfter
	processors int
	ready      func() int // returns the number of goroutines that are ready to run
	checked    time.Time
	// beyond is how many threads more than processors were running at counted: see countThreads. It is 0
	// unless a call has run for longer than stuckAfter. counts is false if Config.Ready is set.
	beyond  atomic.Int64
	counted time.Time
	counts  bool
}

// stuckAfter is the time after which the executor assumes that a running call waits for something
// other than a processor. Programs interrupt calls that compute for longer (Call.Resume).
const stuckAfter = 250 * time.Millisecond

func (p *pace) open(cfg *Config) {
	p.most, p.processors, p.ready, p.counts = cfg.Workers, cfg.Processors, cfg.Ready, cfg.Ready == nil
	if p.ready == nil {
		sample := []metrics.Sample{{Name: "/sched/goroutines/runnable:goroutines"}}
		p.ready = func() int {
			metrics.Read(sample)
			return int(sample[0].Value.Uint64())
		}
	}
}

// slowed reports whether fewer workers may run calls than Config.Workers allows.
func (x *executor) slowed() bool { return x.pace.most < x.workers }

// check adapts pace.most to the load of the processors, at most once in watchTick. Its lowest value
// is the number of processors: if that many calls compute, they use all processors. The caller holds
// x.mu.
func (x *executor) check(now time.Time) {
	p := &x.pace
	if x.busy.Len <= p.processors && !x.slowed() || now.Sub(p.checked) < watchTick {
		return
	}
	p.checked = now
	switch oldest := x.busy.First; {
	case !p.counts:
	case oldest == nil || now.Sub(oldest.since) <= stuckAfter:
		p.beyond.Store(0)
	case now.Sub(p.counted) >= countEvery && !x.closed:
		p.counted = now
		x.wg.Add(1)
		go x.countThreads()
	}
	switch ready := p.ready() + int(p.beyond.Load()); {
	case ready > p.processors:
		p.most = max(p.processors, min(p.most, x.busy.Len-p.stuck)*3/4)
	case ready == 0 && x.slowed():
		p.most = min(x.workers, p.most+max(1, p.most/4))
	}
	if x.slowed() {
		x.countStuck(now)
		x.beginWatch()
	}
}

// countStuck counts the workers whose calls have run for longer than stuckAfter, in each lane and
// in all lanes together. Calls that use the processors in system calls are not stuck. The executor knows how
// many these are, but not which, so it takes those that began last.
func (x *executor) countStuck(now time.Time) {
	x.pace.stuck = 0
	for _, l := range x.lanes {
		l.stuck = 0
	}
	late := 0
	for w := x.busy.First; w != nil && now.Sub(w.since) > stuckAfter; w = w.Next { // the oldest first
		late++
	}
	late -= int(x.pace.beyond.Load())
	for w := x.busy.First; w != nil && x.pace.stuck < late; w = w.Next {
		w.lane.stuck++
		x.pace.stuck++
	}
}
