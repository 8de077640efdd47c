package rpc_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// late is a time after which a running Turn is late.
const late = 3 * time.Millisecond

// receiving acts as the receiving goroutine of a connection.
type receiving struct {
	rpc.Lender
	s        *rpc.Server
	conn     *rpc.Conn
	replaced chan struct{}
}

func newReceiving(s *rpc.Server, conn *rpc.Conn) *receiving {
	r := &receiving{s: s, conn: conn, replaced: make(chan struct{}, 10)}
	r.Replace = func() { r.replaced <- struct{}{} }
	return r
}

// call serves a call, and returns its Turn, or nil if there is none.
func (r *receiving) call(t testing.TB, message []byte) (*rpctest.Call, *rpc.Turn) {
	t.Helper()
	c := rpctest.NewCall(r.conn, message)
	if _, ok := r.s.Admit(&c.Call); !ok {
		t.Fatal("the call was not admitted")
	}
	return c, r.s.ServeOrLend(&c.Call, &r.Lender)
}

func (r *receiving) stall(t testing.TB, lane uint32) (*rpctest.Call, *rpc.Turn) {
	t.Helper()
	return r.call(t, rpctest.Message(lane<<16, rpctest.STALL, u32(lane)))
}

// soon makes a call that blocks, so that the next one comes within Config.LendWithin.
func (r *receiving) soon(t testing.TB, p *rpctest.Program) {
	t.Helper()
	const lane = 1000
	c, turn := r.stall(t, lane)
	if turn != nil {
		t.Fatal("a call that comes rarely was lent a place")
	}
	<-p.Arrived(lane)
	p.Release(lane)
	ended(t, c.Done)
	synctest.Wait() // the worker has ended the call
}

// run calls Run on another goroutine, and returns its result in a channel.
func run(turn *rpc.Turn) <-chan bool {
	wasLate := make(chan bool, 1)
	go func() { wasLate <- turn.Run() }()
	return wasLate
}

// onTurns runs f with a server in fake time.
func onTurns(t *testing.T, cfg rpc.Config, f func(t *testing.T, p *rpctest.Program, r *receiving)) {
	synctest.Test(t, func(t *testing.T) {
		s, p, conn := newServer(t, cfg)
		defer s.Close()
		f(t, p, newReceiving(s, conn))
	})
}

// A call that would block runs to its end on the goroutine that received it, which counts as a
// worker.
func TestCallRunsOnTheGoroutineThatReceivedIt(t *testing.T) {
	onTurns(t, rpc.Config{IdleWorker: time.Minute}, func(t *testing.T, p *rpctest.Program, r *receiving) {
		r.soon(t, p)
		p.Release(1)
		for range 20 {
			c, turn := r.stall(t, 1)
			if turn == nil {
				t.Fatal("it was not lent a place")
			}
			if st := r.s.Stats(); st.Running != 1 || st.Workers != 2 || c.End != rpctest.Open || !c.Detached {
				t.Fatalf("before it runs: %+v, %v, detached %v", st, c.End, c.Detached)
			}
			if turn.Run() {
				t.Error("late")
			}
			if _, err := c.Results(); err != nil {
				t.Fatal(err)
			}
		}
		if st := r.s.Stats(); st.Running != 0 || st.Workers != 1 || st.InProgress != 0 || st.Lent != 20 || st.Replaced != 0 || st.Handed != 21 {
			t.Errorf("%+v", st)
		}
		if len(r.replaced) != 0 {
			t.Error("the connection got another goroutine")
		}
	})
}

// If a Turn becomes late, its connection gets another receiving goroutine, once and within
// milliseconds. Until it ends, its lane gives no other Turn, but other lanes do.
func TestLateCallCostsItsConnectionTheGoroutine(t *testing.T) {
	onTurns(t, rpc.Config{}, func(t *testing.T, p *rpctest.Program, r *receiving) {
		r.soon(t, p)
		_, turn := r.stall(t, 1)
		wasLate := run(turn)
		<-p.Arrived(1)
		if len(r.replaced) != 0 {
			t.Error("it was late at once")
		}
		time.Sleep(late)
		if len(r.replaced) != 1 {
			t.Errorf("replaced %d times", len(r.replaced))
		}
		r.soonAgain(t, p)
		if _, turn := r.stall(t, 1); turn != nil {
			t.Error("a place was lent in a lane with a call that is late")
			run(turn)
		}
		p.Release(2)
		if c, turn := r.stall(t, 2); turn == nil {
			t.Error("no place was lent in another lane")
		} else if turn.Run() || c.End != rpctest.Sent {
			t.Errorf("in another lane the call was late, or ended by %v", c.End)
		}
		time.Sleep(time.Second)
		p.Release(1)
		if !ended(t, wasLate) {
			t.Error("Run does not say that it was late")
		}
		if st := r.s.Stats(); len(r.replaced) != 1 || st.Replaced != 1 {
			t.Errorf("replaced %d times, %+v", len(r.replaced), st)
		}
		synctest.Wait()
		r.soonAgain(t, p)
		if _, turn := r.stall(t, 1); turn == nil {
			t.Error("no place was lent after the late call had ended")
		} else {
			turn.Run()
		}
	})
}

// soonAgain is like soon, but may get a Turn, and does not check the call's result.
func (r *receiving) soonAgain(t testing.TB, p *rpctest.Program) {
	t.Helper()
	const lane = 1000
	c, turn := r.stall(t, lane)
	if turn != nil {
		turn.Run()
	}
	ended(t, c.Done)
}

// A Turn whose Run was not called yet does not become late.
func TestOnlyARunningCallIsLate(t *testing.T) {
	onTurns(t, rpc.Config{}, func(t *testing.T, p *rpctest.Program, r *receiving) {
		r.soon(t, p)
		p.Release(1)
		_, turn := r.stall(t, 1)
		time.Sleep(time.Second)
		if turn.Run() || len(r.replaced) != 0 {
			t.Error("replaced before it ran")
		}
	})
}

// Turns count towards the executor's bounds. If a call waits for a worker, there is no Turn.
func TestPlacesLentAreWorkers(t *testing.T) {
	onTurns(t, rpc.Config{Workers: 4, LaneWorkers: 2}, func(t *testing.T, p *rpctest.Program, r *receiving) {
		r.soon(t, p)
		_, first := r.stall(t, 1)
		_, second := newReceiving(r.s, r.conn).stall(t, 1)
		if first == nil || second == nil {
			t.Fatal("two places of a lane were not lent")
		}
		if _, third := newReceiving(r.s, r.conn).stall(t, 1); third != nil {
			t.Error("a lane has more places than it may")
			run(third)
		} else if st := r.s.Stats(); st.Running != 2 || st.Queued != 1 {
			t.Errorf("%+v", st)
		}
		runs, runsToo := run(first), run(second)
		synctest.Wait()
		if n := len(p.Arrived(1)); n != 2 {
			t.Errorf("%d calls run", n)
		}
		p.Release(1) // at the end of a Turn, a worker begins the third call
		ended(t, runs)
		ended(t, runsToo)
		synctest.Wait()
		if st := r.s.Stats(); st.Running != 0 || st.Queued != 0 || st.InProgress != 0 {
			t.Errorf("%+v", st)
		}
	})
	onTurns(t, rpc.Config{Workers: 1, LaneWorkers: 2}, func(t *testing.T, p *rpctest.Program, r *receiving) {
		r.soon(t, p) // its worker is idle, and Workers allows no other
		p.Release(1)
		c, turn := r.stall(t, 1)
		if turn != nil {
			t.Error("more places than there are")
			turn.Run()
		}
		ended(t, c.Done)
	})
}

// The goroutine watch ends if there are no Turns. Rare calls get no Turn, and do not start it.
func TestRareCallsAreNotLentAPlace(t *testing.T) {
	onTurns(t, rpc.Config{}, func(t *testing.T, p *rpctest.Program, r *receiving) {
		p.Release(1)
		for range 10 {
			time.Sleep(100 * time.Millisecond)
			c, turn := r.stall(t, 1)
			if turn != nil {
				t.Error("lent a place")
				turn.Run()
			}
			ended(t, c.Done)
		}
	})
}

// If a call in a Turn has a duplicate, if it panics, or if the server is closed, it ends like any
// other call.
func TestEndsOfCallsOnTheGoroutineThatReceivedThem(t *testing.T) {
	t.Run("duplicate", func(t *testing.T) {
		onTurns(t, rpc.Config{}, func(t *testing.T, p *rpctest.Program, r *receiving) {
			r.soon(t, p)
			m := rpctest.Message(7, rpctest.HOLD, u32(1))
			first, turn := r.call(t, m)
			wasLate := run(turn)
			<-p.Arrived(1)
			second, again := r.call(t, m)
			if again != nil {
				t.Fatal("a duplicate was lent a place")
			}
			p.Release(1)
			ended(t, wasLate)
			ended(t, first.Done)
			ended(t, second.Done)
			if first.End != rpctest.Sent || second.End != rpctest.Sent || p.Served[rpctest.HOLD].Load() != 1 {
				t.Errorf("%v and %v, served %d times", first.End, second.End, p.Served[rpctest.HOLD].Load())
			}
		})
	})
	t.Run("panic", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s, p, conn := newFaulty(t, rpc.Config{})
			defer s.Close()
			p.serve = func(c *rpc.Call, w *xdr.Writer) rpc.Outcome {
				if c.Try {
					return rpc.WouldBlock("a lane")
				}
				panic("with a place that was lent")
			}
			r := newReceiving(s, conn)
			for i := range uint32(3) {
				c, turn := r.call(t, p.message(i))
				if (turn != nil) != (i > 0) {
					t.Fatalf("call %d: lent %v", i, turn != nil)
				}
				if turn != nil && turn.Run() {
					t.Error("late")
				}
				ended(t, c.Done)
				wantSystemErr(t, c)
			}
			synctest.Wait()
			if st := s.Stats(); st.Panics != 3 || st.Running != 0 || st.InProgress != 0 {
				t.Errorf("%+v", st)
			}
		})
	})
	t.Run("closed before it runs", func(t *testing.T) {
		onTurns(t, rpc.Config{}, func(t *testing.T, p *rpctest.Program, r *receiving) {
			r.soon(t, p)
			c, turn := r.stall(t, 1)
			closed := make(chan struct{})
			go func() { r.s.Close(); close(closed) }()
			synctest.Wait()
			select {
			case <-closed:
				t.Error("Close did not wait for a place that is lent")
			default:
			}
			turn.Run()
			ended(t, closed)
			if c.End != rpctest.Dropped {
				t.Errorf("%v", c.End)
			}
		})
	})
	t.Run("closed while it runs", func(t *testing.T) {
		onTurns(t, rpc.Config{}, func(t *testing.T, p *rpctest.Program, r *receiving) {
			r.soon(t, p)
			c, turn := r.stall(t, 1)
			wasLate := run(turn)
			<-p.Arrived(1)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := r.s.CloseWithin(ctx); err != context.DeadlineExceeded {
				t.Errorf("with a call that does not end: %v", err)
			}
			if len(r.replaced) != 1 {
				t.Errorf("replaced %d times", len(r.replaced))
			}
			p.Release(1)
			if !ended(t, wasLate) {
				t.Error("not late")
			}
			ended(t, c.Done)
			if err := r.s.CloseWithin(t.Context()); err != nil {
				t.Error(err)
			}
		})
	})
}

// A Turn allocates nothing.
func TestTurnsDoNotAllocate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, conn := newServer(t, rpc.Config{})
		defer s.Close()
		r := newReceiving(s, conn)
		r.soon(t, p)
		p.Release(1)
		m := rpctest.Message(1, rpctest.STALL, u32(1))
		c := rpctest.NewCall(conn, m)
		one := func() {
			c.Again(conn, m)
			s.Admit(&c.Call)
			turn := s.ServeOrLend(&c.Call, &r.Lender)
			if turn == nil {
				t.Fatal("not lent a place")
			}
			turn.Run()
			<-c.Done
		}
		one()
		before := testing.AllocsPerRun(100, func() { c.Again(conn, m); c.Detach() })
		c.End = rpctest.Open
		if n := testing.AllocsPerRun(500, one); n > before {
			t.Errorf("%v allocations, %v of them the test's", n, before)
		}
	})
}

// A connection whose calls have ended retains none of them.
func TestATurnThatHasEndedRetainsNoCall(t *testing.T) {
	onTurns(t, rpc.Config{}, func(t *testing.T, p *rpctest.Program, r *receiving) {
		r.soon(t, p)
		p.Release(1)
		c, turn := r.stall(t, 1)
		if turn == nil {
			t.Fatal("it was not lent a place")
		}
		turn.Run()
		ended := weak.Make(c)
		synctest.Wait()
		runtime.GC()
		if ended.Value() != nil {
			t.Error("the call is still in memory")
		}
		runtime.KeepAlive(r)
	})
}
