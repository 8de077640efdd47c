package rpc

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/turns"
)

// executor runs calls that may block, on a limited number of goroutines, its workers. A lane is the
// queue of calls that use one resource that may stall, such as a file system. The number of workers
// of each lane is limited, but a lane may always have one, so that a stalled lane does not stop
// other lanes (see may). While the processors are busy, fewer workers run calls (see pace). A
// worker takes the next call of its lane from each client address in turn, and from each connection
// of that address in turn (package turns). In a lane, one address may use half of the workers that
// the other addresses do not use. Lanes that wait for a worker are served in turn as well. When a
// connection ends, the executor drops its calls that have not begun.
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
	waiting ring[*lane] // lanes with waiting calls and fewer workers than allowed
	idle    *worker     // the worker that became idle last
	team    []*worker   // all workers
	running int
	queued  int
	closed  bool
	wg      sync.WaitGroup
	newLane *lane // head of the list of unused lanes

	// The following fields are for calls that run on the goroutine that received them: see Turn.
	out         []*Turn // the running Turns that are not late
	turns       *Turn   // head of the list of unused Turns
	unusedTurns int
	watching    bool
	quiet       int       // ticks of watch since the last Turn began
	asked       time.Time // when lend was last called
	// lends counts all Turns. replaced counts the Turns that became late: the call ran so long that
	// the connection got another receiving goroutine.
	lends, replaced uint64
}

// A lane has the calls for one resource. It exists as long as it has calls.
type lane struct {
	key     any
	running int
	queued  int
	waits   bool // it is on executor.waiting
	late    int  // running Turns that are late
	stuck   int  // stuck workers, while the pace is slowed
	line    turns.Line[*Conn, *Call]
	unused  *lane
}

// lanePlace is an entry in a lane's queue (package turns). The queue has an entry for each waiting
// call. It also has one for each client address, which counts the running calls of that address.
type lanePlace = turns.Place[*Conn, *Call]

// A worker is a goroutine that runs calls.
type worker struct {
	wake       chan *Call // a nil call ends the worker
	prev, next *worker    // links in executor.idle
	place      int        // index in executor.team
	// lane is the lane of the call that the worker runs, or nil if it runs none. address is the
	// entry of the client address that sent that call. The field since is the time at which the
	// call began.
	lane    *lane
	address *lanePlace
	since   time.Time
}

func newExecutor(cfg *Config, run, abandon func(*Call)) *executor {
	return &executor{
		run: run, abandon: abandon, working: cfg.Working,
		workers: cfg.Workers, perLane: 2 * cfg.LaneWorkers, idleFor: cfg.IdleWorker, lendWithin: cfg.LendWithin,
		lanes: make(map[any]*lane), pace: newPace(cfg),
	}
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
	l := x.lanes[key]
	if l == nil {
		l = x.openLane(key)
	}
	x.enqueue(l, c)
	x.check(now)
	if !x.may(l) || x.idle == nil && len(x.team) >= x.workers && l.running > 0 {
		x.wait(l)
		x.mu.Unlock()
		return
	}
	w, idle := x.worker()
	// The worker takes the lane's next call, which may be an older one than the submitted call.
	if c = x.start(w, l, now); c == nil {
		x.wait(l)
		x.mu.Unlock()
		return
	}
	x.put(w, c, idle)
	x.mu.Unlock()
}

// worker returns a worker for another call: the worker that became idle last (idle is then true)
// or, if none is idle, a new one, which is not in the team yet.
func (x *executor) worker() (w *worker, idle bool) {
	if x.idle != nil {
		return x.idle, true
	}
	return &worker{wake: make(chan *Call, 1)}, false
}

// put makes a worker run c. idle is true if the worker is idle, and false if it is new.
func (x *executor) put(w *worker, c *Call, idle bool) {
	if idle {
		x.unlink(w)
		w.wake <- c
		return
	}
	x.join(w)
	go x.work(w, c)
}

func (x *executor) join(w *worker) {
	w.place = len(x.team)
	x.team = append(x.team, w)
	x.wg.Add(1)
}

// dismiss removes w from the team, because w will run no more calls.
func (x *executor) dismiss(w *worker) {
	last := x.team[len(x.team)-1]
	x.team[w.place], last.place = last, w.place
	x.team[len(x.team)-1] = nil
	x.team = x.team[:len(x.team)-1]
}

func (x *executor) openLane(key any) *lane {
	l := x.newLane
	if l == nil {
		l = new(lane)
	} else {
		x.newLane, l.unused = l.unused, nil
	}
	l.key, l.stuck = key, 0
	x.lanes[key] = l
	return l
}

// start gives w the next call of a lane, and returns that call. It returns nil if no call waits, or
// if none of the waiting calls may run because the lane, or each waiting client address, already
// uses as many workers as it may.
func (x *executor) start(w *worker, l *lane, now time.Time) *Call {
	p, address := l.line.Take(x.perLane)
	if p == nil {
		return nil
	}
	w.lane, w.address, w.since = l, address, now
	l.queued--
	x.queued--
	l.running++
	x.running++
	return p.Value
}

// ended is called when w has run a call: it is the inverse of start. It returns the worker's next
// call, or nil. If the lane has calls and no other worker, w stays in the lane, because all other
// workers may be stalled.
func (x *executor) ended(w *worker, now time.Time) *Call {
	l := w.lane
	l.line.GiveBack(w.address)
	w.lane, w.address = nil, nil
	l.running--
	x.running--
	switch {
	case l.running > 0:
		x.wait(l)
	case l.queued > 0:
		c := x.start(w, l, now)
		x.wait(l)
		return c
	default:
		x.shut(l)
	}
	return x.next(w, now)
}

// shut removes a lane that has no calls.
func (x *executor) shut(l *lane) {
	delete(x.lanes, l.key)
	l.key = nil
	l.unused, x.newLane = x.newLane, l
}

// may reports whether a lane may have one more worker. The first worker of a lane is always
// allowed, even beyond x.workers, so that stalled lanes never stop another lane. Apart from that, a
// lane may use half of the workers that other lanes do not use, so that the other half remains for
// new lanes. While the pace is slowed, the same rule also holds for pace.most instead of x.workers,
// without the stuck workers.
func (x *executor) may(l *lane) bool {
	half := func(most, all, own int) bool { return own < (most-(all-own)+1)/2 }
	return l.running == 0 || half(x.workers, x.running, l.running) &&
		(!x.slowed() || half(x.pace.most, x.running-x.pace.stuck, l.running-l.stuck))
}

// wait adds l to the lanes that wait for a worker, if l can use one.
func (x *executor) wait(l *lane) {
	if !l.waits && l.queued > 0 && l.running < x.perLane {
		l.waits = true
		x.waiting.push(l)
	}
}

// usualTurn is the turn of a call: after this time it gives way to calls that wait for a worker.
// While the pace is slowed, the turn is yieldAfter, because the calls then compete for processors.
// Otherwise they wait for disks, and an earlier end of the turn would only make them wait twice.
const usualTurn = 100 * time.Millisecond

func (x *executor) mustGiveWay(ran time.Duration) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.waiting.n > 0 && (ran > usualTurn || x.slowed())
}

func (x *executor) enqueue(l *lane, c *Call) {
	p := &c.state.place
	p.Value = c
	l.line.Join(p, c.Conn.client, c.Conn)
	l.queued++
	x.queued++
}

// forget drops the waiting calls of a connection that has ended.
func (x *executor) forget(of *Conn) {
	var left []*Call
	x.mu.Lock()
	for _, l := range x.lanes {
		l.line.Each(of.client, of, func(p *lanePlace) {
			if c := p.Value; c.lost() {
				l.line.Leave(p)
				l.queued--
				x.queued--
				left = append(left, c)
			}
		})
	}
	x.mu.Unlock()
	x.abandonAll(left)
}

func (x *executor) abandonAll(left []*Call) {
	for _, c := range left {
		x.abandon(c)
	}
}

// next gives w, which runs no call, a call from the first waiting lane that may have one more
// worker, and returns that call. It returns nil if no waiting call may run now.
func (x *executor) next(w *worker, now time.Time) *Call {
	for range x.waiting.n {
		l, _ := x.waiting.pop()
		if l.queued == 0 { // the lane's own worker has taken the last call
			l.waits = false
			continue
		}
		if !x.may(l) {
			x.waiting.push(l)
			continue
		}
		c := x.start(w, l, now)
		if c == nil {
			x.waiting.push(l)
			continue
		}
		l.waits = false
		x.wait(l)
		return c
	}
	return nil
}

// work runs c and then further calls. It returns when the executor is closed, or when w got no call
// for idleFor. A worker that never waits yields the processor after yieldAfter.
func (x *executor) work(w *worker, c *Call) {
	defer x.wg.Done()
	timer := time.NewTimer(x.idleFor)
	defer timer.Stop()
	yielded := time.Now()
	for c != nil {
		if x.working != nil {
			x.working()
		}
		x.run(c)
		now := time.Now()
		x.mu.Lock()
		if c = x.ended(w, now); c != nil {
			x.mu.Unlock()
			if now.Sub(yielded) > yieldAfter {
				runtime.Gosched()
				yielded = time.Now()
			}
			continue
		}
		if x.closed {
			x.dismiss(w)
			x.mu.Unlock()
			return
		}
		x.link(w)
		x.mu.Unlock()
		timer.Reset(x.idleFor)
		c = x.await(w, timer.C)
		yielded = time.Now()
	}
}

// yieldAfter is the time after which a worker yields the processor, between two calls or between
// two operations of a call. Otherwise the Go runtime would let it use the processor for 10 ms. A
// shorter time would cost more: each yield wakes an idle processor, and may move the worker there.
const yieldAfter = 500 * time.Microsecond

// await waits for the next call of an idle worker. It returns nil if the worker has to end.
func (x *executor) await(w *worker, timeout <-chan time.Time) *Call {
	select {
	case c := <-w.wake:
		return c
	case <-timeout:
	}
	x.mu.Lock()
	if w.linked(x) {
		x.unlink(w)
		x.dismiss(w)
		x.mu.Unlock()
		return nil
	}
	x.mu.Unlock()
	return <-w.wake // another goroutine has just chosen w, and wakes it
}

func (w *worker) linked(x *executor) bool { return w.prev != nil || x.idle == w }

func (x *executor) link(w *worker) {
	w.prev, w.next = nil, x.idle
	if x.idle != nil {
		x.idle.prev = w
	}
	x.idle = w
}

func (x *executor) unlink(w *worker) {
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		x.idle = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	}
	w.prev, w.next = nil, nil
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
		x.queued -= l.queued
		l.queued, l.waits = 0, false
		if l.running == 0 {
			delete(x.lanes, l.key)
		}
	}
	x.waiting = ring[*lane]{}
	for w := x.idle; w != nil; w = x.idle {
		x.unlink(w)
		x.dismiss(w)
		w.wake <- nil
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
	for _, w := range x.team {
		if w.lane != nil {
			oldest[w.lane] = max(oldest[w.lane], now.Sub(w.since))
		}
	}
	all := make([]LaneStats, 0, len(x.lanes))
	for key, l := range x.lanes {
		all = append(all, LaneStats{Lane: key, Running: l.running, Queued: l.queued, Oldest: oldest[l]})
	}
	return all
}

func (x *executor) depth() (workers, running, queued int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.team), x.running, x.queued
}

// A ring is a queue in a ring buffer. It grows and never shrinks.
type ring[T any] struct {
	items []T
	head  int
	n     int
}

func (r *ring[T]) push(v T) {
	if r.n == len(r.items) {
		bigger := make([]T, max(8, 2*r.n))
		for i := range r.n {
			bigger[i] = r.items[(r.head+i)%len(r.items)]
		}
		r.items, r.head = bigger, 0
	}
	r.items[(r.head+r.n)%len(r.items)] = v
	r.n++
}

func (r *ring[T]) pop() (v T, ok bool) {
	if r.n == 0 {
		return v, false
	}
	var zero T
	v, r.items[r.head] = r.items[r.head], zero
	r.head = (r.head + 1) % len(r.items)
	r.n--
	return v, true
}
