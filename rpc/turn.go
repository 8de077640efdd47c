package rpc

import (
	"sync/atomic"
	"time"
)

// A call that may block normally runs on a worker of the executor, which has to be woken for it.
// The goroutine that received the call is already awake. If its connection has no other call and no
// more input, that goroutine runs the call itself, and counts as a worker meanwhile, within all
// limits of the executor: this is a Turn. Meanwhile the server receives nothing from the
// connection. The executor's watch checks all Turns at each tick. A call that has not ended at the
// second tick is late: the connection gets another receiving goroutine, and the first goroutine
// only finishes the call.

// watchTick is the time between two ticks of executor.watch. A Turn stops the reception from its
// connection for at most two ticks.
const watchTick = time.Millisecond

// watchIdle is the number of ticks without a Turn after which executor.watch ends.
const watchIdle = 8

// keptTurns is the largest number of unused Turns that the executor stores for reuse.
const keptTurns = 16

// A Lender is a connection whose receiving goroutine may run calls that block.
type Lender struct {
	// Replace gives the connection another receiving goroutine. It is called from
	// any goroutine, and must not block.
	Replace func()
	turn    *Turn
}

// A Turn lets the goroutine that received a call execute the call as a worker of the executor. The
// goroutine first prepares the connection, so that another goroutine can receive from the
// connection. Then it has to call Run.
type Turn struct {
	x       *executor
	call    *Call
	replace func()
	worker  worker
	// begun is true once Run was called. seen is true if a tick of watch has passed since lend
	// returned the Turn. late is true if the connection has another receiving goroutine, or is
	// about to get one. The field at is the index in executor.out. The executor's mutex guards all
	// of them except begun.
	begun      atomic.Bool
	late, seen bool
	at         int
	unused     *Turn
}

// ServeOrLend is Serve for a connection that has no more input and no other outstanding call. If
// the call would block and the executor may have one more worker at once, ServeOrLend returns a
// Turn. The calling goroutine then has to call Turn.Run, as soon as another goroutine can receive
// from the connection. Otherwise ServeOrLend returns nil, and the call is served as by Serve.
func (s *Server) ServeOrLend(c *Call, l *Lender) *Turn {
	c.state.lender = l
	s.start(c, false)
	t := l.turn
	l.turn = nil
	return t
}

// submit passes c to the executor. But if c has a Lender, and the executor allows it, submit gives
// the Lender a Turn, so that the calling goroutine runs c itself.
func (s *Server) submit(c *Call, lane any) {
	l := c.state.lender
	c.state.lender = nil
	if l != nil {
		if l.turn = s.exec.lend(c, lane, l.Replace); l.turn != nil {
			return
		}
	}
	s.exec.submit(c, lane)
}

// Run runs the call to its end. late is true if the call took so long that the connection has
// another receiving goroutine, or is about to get one. The calling goroutine must then not use the
// connection any more.
func (t *Turn) Run() (late bool) {
	x, c := t.x, t.call
	t.call = nil
	t.begun.Store(true)
	x.run(c)
	now := time.Now()
	x.mu.Lock()
	late = t.late
	if !late {
		x.unwatch(t)
	} else {
		t.worker.lane.late--
	}
	if c = x.ended(&t.worker, now); c != nil {
		x.mu.Unlock()
		go x.work(&t.worker, c) // the Turn's worker stays in the executor, on a new goroutine
		return late
	}
	x.dismiss(&t.worker)
	x.putTurn(t)
	x.mu.Unlock()
	x.wg.Done()
	return late
}

// lend makes the calling goroutine a worker for c, and returns its Turn. It returns nil if another
// call waits for a worker, if a Turn in the lane is late, if the executor is closed or may not have
// another worker, or if calls that would block are too rare (Config.LendWithin).
func (x *executor) lend(c *Call, key any, replace func()) *Turn {
	now := time.Now()
	x.mu.Lock()
	defer x.mu.Unlock()
	soon := now.Sub(x.asked) < x.lendWithin
	x.asked = now
	if x.closed || !x.watching && !soon || x.waiting.n > 0 || len(x.team) >= x.workers {
		return nil
	}
	l := x.lanes[key]
	if l == nil {
		l = x.openLane(key)
	} else if l.queued > 0 || l.late > 0 || !x.may(l) {
		return nil
	}
	t := x.takeTurn()
	x.enqueue(l, c)
	if x.start(&t.worker, l, now) == nil { // other calls of the client address use all workers that the address may have
		l.line.Leave(&c.state.place)
		l.queued--
		x.queued--
		x.putTurn(t)
		return nil
	}
	t.call, t.replace = c, replace
	x.join(&t.worker)
	t.at = len(x.out)
	x.out = append(x.out, t)
	x.quiet = 0
	x.lends++
	x.beginWatch()
	return t
}

// beginWatch starts watch, unless it runs.
func (x *executor) beginWatch() {
	if !x.watching {
		x.watching = true
		x.wg.Add(1)
		go x.watch()
	}
}

// takeTurn returns a Turn for another call: an unused one, or a new one if there is none. putTurn
// stores a Turn for reuse.
func (x *executor) takeTurn() *Turn {
	t := x.turns
	if t == nil {
		return &Turn{x: x, worker: worker{wake: make(chan *Call, 1)}}
	}
	x.turns, t.unused = t.unused, nil
	x.unusedTurns--
	return t
}

func (x *executor) putTurn(t *Turn) {
	if x.unusedTurns == keptTurns {
		return
	}
	t.begun.Store(false)
	t.late, t.seen, t.replace = false, false, nil
	t.unused, x.turns = x.turns, t
	x.unusedTurns++
}

// unwatch removes t from x.out, the Turns that watch checks.
func (x *executor) unwatch(t *Turn) {
	last := len(x.out) - 1
	moved := x.out[last]
	x.out[t.at], moved.at = moved, t.at
	x.out[last] = nil
	x.out = x.out[:last]
}

// watch checks the Turns at each tick: see look. While the pace is slowed (executor.slowed), watch
// also adapts the pace, and gives waiting calls to workers. watch runs on a goroutine of its own.
// It ends when there was no Turn for watchIdle ticks and the pace is not slowed, or when the
// executor is closed and has no Turn to check.
func (x *executor) watch() {
	defer x.wg.Done()
	var replace []func()
	tick := time.NewTicker(watchTick)
	defer tick.Stop()
	for range tick.C {
		x.mu.Lock()
		replace = x.look(replace[:0])
		x.quiet++
		if x.slowed() && !x.closed {
			now := time.Now()
			x.check(now)
			x.hire(now)
		}
		if len(x.out) == 0 && (x.closed || x.quiet > watchIdle && !x.slowed()) {
			x.watching = false
		}
		goesOn := x.watching
		x.mu.Unlock()
		for i, f := range replace {
			f()
			replace[i] = nil
		}
		if !goesOn {
			return
		}
	}
}

// look marks a Turn as late if its call runs (begun) and an earlier tick has already seen it. It
// appends the Replace functions of these Turns to the slice replace.
func (x *executor) look(replace []func()) []func() {
	for i := 0; i < len(x.out); {
		t := x.out[i]
		if !t.seen || !t.begun.Load() {
			t.seen = true
			i++
			continue
		}
		x.unwatch(t)
		t.late = true
		t.worker.lane.late++
		x.replaced++
		replace = append(replace, t.replace)
	}
	return replace
}

func (x *executor) turnCounts() (lent, late uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.lends, x.replaced
}
