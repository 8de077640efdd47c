package rpc

import (
	"sync/atomic"
	"time"
)

// A call that may block normally passes to a worker of the executor, which has to be woken for
// it. The goroutine that received the call is already awake. So, if its connection has nothing
// else to do, that goroutine takes a worker's place in the executor, within all bounds, and runs
// the call itself. Meanwhile nothing is received from the connection. If the call has not ended
// at the second tick of the executor's watch, it is late: the connection gets another receiving
// goroutine, and the first one keeps only the call.

// watchTick is the period of the watch. One call delays the reception from its connection by at
// most two ticks.
const watchTick = time.Millisecond

// watchIdle is the number of ticks for which the watch continues without a call to watch.
const watchIdle = 8

// keptTurns is the largest number of unused Turns that the executor keeps.
const keptTurns = 16

// A Lender is a connection whose receiving goroutine may run calls that block.
type Lender struct {
	// Replace gives the connection another receiving goroutine. It is called from
	// any goroutine, and must not block.
	Replace func()
	turn    *Turn
}

// A Turn is a call with a place in the executor. The goroutine that gets it has to call Run,
// after it has prepared the connection so that another goroutine can receive from it.
type Turn struct {
	x       *executor
	call    *Call
	replace func()
	worker  worker
	// begun: Run was called. late: the connection has another receiving goroutine, or is about to
	// get one. seen: the watch has seen the Turn at a tick. at is the index in executor.out. The
	// executor's mutex guards all except begun.
	begun      atomic.Bool
	late, seen bool
	at         int
	unused     *Turn
}

// ServeOrLend is Serve for a connection that has no more input and no other call under way. If
// the call may block and the executor has a place at once, the calling goroutine gets this place
// as a Turn, and has to call Turn.Run as soon as it has left the connection. Otherwise it returns
// nil, and the call is served as by Serve.
func (s *Server) ServeOrLend(c *Call, l *Lender) *Turn {
	c.state.lender = l
	s.start(c, false)
	t := l.turn
	l.turn = nil
	return t
}

// submit has the executor run c, on this goroutine if its Lender allows that.
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

// Run runs the call to its end. late reports that this took long: the connection has another
// receiving goroutine, or is about to get one, and no longer belongs to the calling goroutine.
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
		go x.work(&t.worker, c) // the Turn lives on as a worker
		return late
	}
	x.dismiss(&t.worker)
	x.putTurn(t)
	x.mu.Unlock()
	x.wg.Done()
	return late
}

// lend gives the calling goroutine a worker's place for c, or returns nil. It lends a place only
// if no other call waits for one, and not in a lane in which a call is late.
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
	if x.start(&t.worker, l, now) == nil { // other calls of its address use all that the address may have
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
	if !x.watching {
		x.watching = true
		x.wg.Add(1)
		go x.watch()
	}
	return t
}

// takeTurn returns an unused Turn; putTurn takes it back.
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

// unwatch removes t from the calls that the watch checks.
func (x *executor) unwatch(t *Turn) {
	last := len(x.out) - 1
	moved := x.out[last]
	x.out[t.at], moved.at = moved, t.at
	x.out[last] = nil
	x.out = x.out[:last]
}

// watch is the goroutine that finds late calls.
func (x *executor) watch() {
	defer x.wg.Done()
	var replace []func()
	tick := time.NewTicker(watchTick)
	defer tick.Stop()
	for range tick.C {
		x.mu.Lock()
		replace = x.look(replace[:0])
		x.quiet++
		if len(x.out) == 0 && (x.closed || x.quiet > watchIdle) {
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

// look appends the Replace functions of the calls that have become late.
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
