package rpc

import (
	"context"
	"sync"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/turns"
)

// executor runs calls that may block, on a bounded number of goroutines. Each
// lane (something that may stall: a file system) has a bound of its own, and at
// least one goroutine, so that the others go on when it stalls. Within a lane client
// addresses take turns, and then their connections (package turns): an address has half of
// the lane's goroutines at most. Between lanes that wait for a goroutine the lanes take turns.
// What waits when its connection ends is dropped, unless it has begun.
type executor struct {
	run     func(*Call)
	abandon func(*Call)
	working func() // nil, or told that a worker begins a call
	workers int    // bounds
	perLane int
	idleFor time.Duration
	// lendWithin: see Config.
	lendWithin time.Duration

	mu      sync.Mutex
	lanes   map[any]*lane
	waiting ring[*lane] // lanes with calls to run and fewer running than allowed
	idle    *worker     // the one that became idle last
	team    []*worker   // all there are
	running int
	queued  int
	closed  bool
	wg      sync.WaitGroup
	newLane *lane // unused ones

	// Calls that run on the goroutine which received them: see Turn.
	out         []*Turn // of those that are not late
	turns       *Turn   // unused ones
	unusedTurns int
	watching    bool
	quiet       int       // ticks of the watch since a call was lent to
	asked       time.Time // lend was called last
	// Calls that were lent a place, and those of them that became late.
	lends, replaced uint64
}

// A lane exists while it has calls.
type lane struct {
	key     any
	running int
	queued  int
	waits   bool // on executor.waiting
	late    int  // of those that run, on the goroutine that received them
	line    turns.Line[*Conn, *Call]
	unused  *lane
}

// lanePlace is where a call waits in a lane, or the client address of one that runs.
type lanePlace = turns.Place[*Conn, *Call]

// worker is a goroutine that runs calls.
type worker struct {
	wake       chan *Call // nil: end
	prev, next *worker    // on executor.idle
	place      int        // in executor.team
	// lane is that of the call that runs, nil where none does, and address holds the
	// worker there; since is when the call began.
	lane    *lane
	address *lanePlace
	since   time.Time
}

func newExecutor(cfg *Config, run, abandon func(*Call)) *executor {
	return &executor{
		run: run, abandon: abandon, working: cfg.Working,
		workers: cfg.Workers, perLane: 2 * cfg.LaneWorkers, idleFor: cfg.IdleWorker, lendWithin: cfg.LendWithin,
		lanes: make(map[any]*lane),
	}
}

// submit runs c soon. Nothing of it blocks.
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
	if !x.may(l) || x.idle == nil && len(x.team) >= x.workers && l.running > 0 {
		x.wait(l)
		x.mu.Unlock()
		return
	}
	w, idle := x.idle, x.idle != nil
	if !idle {
		w = &worker{wake: make(chan *Call, 1)}
	}
	// The lane's own next call: an earlier one may be waiting.
	if c = x.start(w, l, now); c == nil {
		x.wait(l)
		x.mu.Unlock()
		return
	}
	if idle {
		x.unlink(w)
		x.mu.Unlock()
		w.wake <- c
		return
	}
	x.join(w)
	x.mu.Unlock()
	go x.work(w, c)
}

func (x *executor) join(w *worker) {
	w.place = len(x.team)
	x.team = append(x.team, w)
	x.wg.Add(1)
}

// dismiss forgets a worker whose goroutine ends.
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
	l.key = key
	x.lanes[key] = l
	return l
}

// start gives w the next call of a lane, or nil where none of those that wait may be run.
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

// ended takes back what start counted, and returns the worker's next call, or nil. A lane
// with calls and no other goroutine keeps this one: others may stall.
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

// shut forgets a lane that has no calls.
func (x *executor) shut(l *lane) {
	delete(x.lanes, l.key)
	l.key = nil
	l.unused, x.newLane = x.newLane, l
}

// may says whether a lane may have one more goroutine. The first it always has,
// beyond the bound of all if need be, so that lanes which stall stop no other,
// however many they are. Of what the others leave it may take half: it leaves as
// much for those to come.
func (x *executor) may(l *lane) bool {
	return l.running == 0 || l.running < (x.workers-(x.running-l.running)+1)/2
}

// wait puts a lane in line for a goroutine, if it can use one.
func (x *executor) wait(l *lane) {
	if !l.waits && l.queued > 0 && l.running < x.perLane {
		l.waits = true
		x.waiting.push(l)
	}
}

func (x *executor) enqueue(l *lane, c *Call) {
	p := &c.state.place
	p.Value = c
	l.line.Join(p, c.Conn.client, c.Conn)
	l.queued++
	x.queued++
}

// forget abandons what waits of a connection that has ended, and has not begun.
func (x *executor) forget(of *Conn) {
	var left *Call
	x.mu.Lock()
	for _, l := range x.lanes {
		l.line.Each(of.client, of, func(p *lanePlace) {
			if c := p.Value; c.lost() {
				l.line.Leave(p)
				l.queued--
				x.queued--
				c.state.next, left = left, c
			}
		})
	}
	x.mu.Unlock()
	x.abandonAll(left)
}

// abandonAll abandons a list that is linked by callState.next.
func (x *executor) abandonAll(left *Call) {
	for left != nil {
		x.abandon(left.unlink(&left))
	}
}

// next is a call for a worker that has none, or nil: of the first lane in line that
// may have one more goroutine.
func (x *executor) next(w *worker, now time.Time) *Call {
	for range x.waiting.n {
		l, _ := x.waiting.pop()
		if l.queued == 0 { // its own goroutine took the last one
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

// work is a goroutine's life.
func (x *executor) work(w *worker, c *Call) {
	defer x.wg.Done()
	timer := time.NewTimer(x.idleFor)
	defer timer.Stop()
	for c != nil {
		if x.working != nil {
			x.working()
		}
		x.run(c)
		now := time.Now()
		x.mu.Lock()
		if c = x.ended(w, now); c != nil {
			x.mu.Unlock()
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
	}
}

// await is the next call of an idle worker, or nil where it is to end.
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
	return <-w.wake // another goroutine chose w just now, and wakes it
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

// close abandons what waits and returns when no goroutine is left, or with the
// context's cause. What runs then is left behind.
func (x *executor) close(ctx context.Context) error {
	x.mu.Lock()
	x.closed = true
	var left *Call
	for _, l := range x.lanes {
		for p := l.line.Next(); p != nil; p = l.line.Next() {
			p.Value.state.next, left = left, p.Value
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

// inLanes is what each lane has to do.
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

// ring is a queue that keeps its memory.
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
