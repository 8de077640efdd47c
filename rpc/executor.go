package rpc

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/queue"
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

// submit queues c in the lane that key names, and gives that lane as many workers as it may have
// now: with the first call of another site, the addresses of a site may have more than before
// (package turns). It does not block.
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
	for x.give(l, now) {
	}
	x.settle(l)
	x.mu.Unlock()
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
	waited := now.Sub(c.state.since)
	if waited > 0 { // the call of a Turn has not waited
		x.queued.end(waited)
	}
	c.state.was(Queued, WaitUnknown, waited)
	c.state.worker, c.state.since = w, now
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

// follow lets other calls begin after one of l has ended. If l has calls and no worker, it comes
// first, because all other workers may be stalled. More than one call may begin, because others have a
// larger part when a lane, a site or an address has no worker any more.
func (x *executor) follow(l *lane, now time.Time) {
	if l.line.Held() == 0 {
		x.give(l, now)
	}
	for x.hire(now) {
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
