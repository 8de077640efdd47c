package rpc

import (
	"sync/atomic"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/queue"
)

// A call that may block normally runs on a worker of the executor, which has to be woken for it. The
// goroutine that received the call is awake. If its connection has no other call and no more input,
// that goroutine runs the call itself, and counts as a worker meanwhile, within all limits of the
// executor: this is a Turn. Meanwhile the server receives nothing from the connection. A call that
// has not ended at the second tick of the executor's watch is late: the connection gets another
// receiving goroutine, and the first one only finishes the call.

// watchTick is the time between two ticks of executor.watch. A Turn stops the reception from its
// connection for at most two ticks.
const watchTick = time.Millisecond

// watchIdle is the number of ticks without a Turn after which executor.watch ends.
const watchIdle = 8

// A Lender is a connection whose receiving goroutine may run calls that block. It has at most one
// Turn that is not late.
type Lender struct {
	// Replace gives the connection another receiving goroutine. It is called from
	// any goroutine, and must not block.
	Replace func()
	// turn is the last Turn of the connection, for reuse. lent is true if the call that is being
	// served has got it.
	turn *Turn
	lent bool
}

// A Turn lets the goroutine that received a call execute it as a worker of the executor. The
// goroutine has to call Run, as soon as another goroutine could receive from the connection.
type Turn struct {
	queue.Links[Turn] // links in executor.out
	x                 *executor
	replace           func()
	call              *Call
	worker            worker
	// begun is true once Run was called. seen is true if a tick of watch has passed since lend
	// returned the Turn. late is true if the connection has another receiving goroutine, or is
	// about to get one. The executor's mutex guards seen and late.
	begun      atomic.Bool
	late, seen bool
}

// ServeOrLend is Serve for a connection that has no more input and no other outstanding call. If
// the call would block and the executor may have one more worker at once, ServeOrLend returns a
// Turn. Otherwise it returns nil, and the call is served as by Serve.
func (s *Server) ServeOrLend(c *Call, l *Lender) *Turn {
	c.state.lender, l.lent = l, false
	s.start(c, false)
	if !l.lent {
		return nil
	}
	return l.turn
}

// submit passes c to the executor. But if c has a Lender, and the executor allows it, submit gives
// the Lender a Turn, so that the calling goroutine runs c itself.
func (s *Server) submit(c *Call, lane any) {
	l := c.state.lender
	c.state.lender = nil
	if l == nil || !s.exec.lend(c, lane, l) {
		s.exec.submit(c, lane)
	}
}

// Run runs the call to its end. late is true if the call took so long that the connection has
// another receiving goroutine, or is about to get one. The calling goroutine must then not use the
// connection any more.
func (t *Turn) Run() (late bool) {
	x, c := t.x, t.call
	defer x.wg.Done()
	t.call = nil // a Turn that waits for its reuse retains no call
	t.begun.Store(true)
	x.run(c)
	now := time.Now()
	x.mu.Lock()
	defer x.mu.Unlock()
	if t.late {
		t.worker.lane.late--
	} else {
		x.out.Remove(t)
	}
	x.follow(x.ended(&t.worker, now), now)
	return t.late
}

// lend makes the calling goroutine a worker for c, and gives lender a Turn. It returns false if
// another call waits for a worker, if a Turn in the lane is late, if the executor is closed or may
// not have another worker, or if calls that would block are too rare (Config.LendWithin).
func (x *executor) lend(c *Call, key any, lender *Lender) bool {
	now := time.Now()
	x.mu.Lock()
	defer x.mu.Unlock()
	soon := now.Sub(x.asked) < x.lendWithin
	x.asked = now
	if x.closed || !x.watching && !soon || x.waiting.Len > 0 || x.idle.Len+x.busy.Len >= x.workers {
		return false
	}
	l := x.enqueue(c, key, now)
	defer x.settle(l)
	if l.line.Len() > 1 || l.late > 0 || !x.may(l) {
		l.line.Leave(&c.state.place)
		return false
	}
	p, address := l.line.Take(x.perLane)
	if p == nil { // other calls of the client address use all workers that the address may have
		l.line.Leave(&c.state.place)
		return false
	}
	t := lender.turn
	if t == nil || t.late {
		t = &Turn{x: x, replace: lender.Replace}
		lender.turn = t
	}
	t.call, t.seen, lender.lent = c, false, true
	t.begun.Store(false)
	x.begun(&t.worker, l, c, address, now)
	x.out.Add(t)
	x.wg.Add(1)
	x.quiet = 0
	x.lends++
	x.beginWatch()
	return true
}

// beginWatch starts watch, unless it runs.
func (x *executor) beginWatch() {
	if !x.watching {
		x.watching = true
		x.wg.Add(1)
		go x.watch()
	}
}

// watch checks the Turns at each tick, on a goroutine of its own. While the pace is slowed, it also
// adapts the pace, and gives waiting calls to workers. It ends when there was no Turn for watchIdle
// ticks and the pace is not slowed, or when the executor is closed and has no Turn to check.
func (x *executor) watch() {
	defer x.wg.Done()
	tick := time.NewTicker(watchTick)
	defer tick.Stop()
	for range tick.C {
		x.mu.Lock()
		late := x.markLate()
		x.quiet++
		if x.slowed() && !x.closed {
			now := time.Now()
			x.check(now)
			for x.hire(now) {
			}
		}
		if x.out.Len == 0 && (x.closed || x.quiet > watchIdle && !x.slowed()) {
			x.watching = false
		}
		goesOn := x.watching
		x.mu.Unlock()
		for _, replace := range late {
			replace()
		}
		if !goesOn {
			return
		}
	}
}

// markLate marks a Turn as late if its call runs (begun) and an earlier tick has already seen it. It
// returns the Replace functions of these Turns.
func (x *executor) markLate() (late []func()) {
	for t, next := x.out.First, (*Turn)(nil); t != nil; t = next {
		next = t.Next
		if !t.seen || !t.begun.Load() {
			t.seen = true
			continue
		}
		x.out.Remove(t)
		t.late = true
		t.worker.lane.late++
		x.replaced++
		late = append(late, t.replace)
	}
	return late
}
