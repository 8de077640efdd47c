package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// faulty is a program that panics in the method named by the field in. Its procedure must not be
// executed twice.
type faulty struct {
	in       string // the method that panics, or "" if none does
	executed atomic.Int32
	serve    func(c *rpc.Call, w *xdr.Writer) rpc.Outcome
}

func (p *faulty) panicIn(where string) {
	if p.in == where {
		panic("in " + where)
	}
}

func (p *faulty) Number() uint32             { return 0x2000_0fff }
func (p *faulty) Versions() (uint32, uint32) { return 1, 1 }

func (p *faulty) Judge(_ *rpc.Arrived, j *rpc.Judgement) rpc.Outcome {
	p.panicIn("Judge")
	j.Lane = "a lane"
	return rpc.Done
}

func (p *faulty) Binding(uint32) *rpc.Binding {
	return &rpc.Binding{Procedures: []rpc.Procedure{{
		Name: "FAULT", Once: true, MaxArgs: 1000,
		Walk: func(args *xdr.Decoder, s *rpc.Shape) {
			p.panicIn("Walk")
			s.Words, s.Payload = 100, 100
		},
	}}}
}

func (p *faulty) Serve(c *rpc.Call, w *xdr.Writer) rpc.Outcome {
	p.executed.Add(1)
	p.panicIn("Serve")
	if p.serve != nil {
		return p.serve(c, w)
	}
	return rpc.Done
}

func (p *faulty) message(xid uint32) []byte {
	return rpctest.CallMessage(rpc.CallHeader{XID: xid, Program: p.Number(), Version: 1}, nil)
}

// newFaulty returns a server with a faulty program.
func newFaulty(t testing.TB, cfg rpc.Config) (*rpc.Server, *faulty, *rpc.Conn) {
	pool, err := mem.NewPool(mem.Config{Ceiling: mem.MinCeiling})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Pool = pool
	s := rpc.NewServer(cfg)
	p := new(faulty)
	s.Register(p)
	t.Cleanup(func() {
		s.Close()
		pool.Close()
	})
	return s, p, s.NewConn(peer, local, "tcp", true)
}

func wantSystemErr(t *testing.T, c *rpctest.Call) {
	t.Helper()
	_, err := c.Results()
	var re *rpc.ReplyError
	if !errors.As(err, &re) || re.Denied || re.Stat != rpc.AcceptSystemErr {
		t.Errorf("reply %v (end %v), want SYSTEM_ERR", err, c.End)
	}
}

// If a program panics, only the present call fails: the caller gets SYSTEM_ERR, the call's memory
// is released, and the server continues.
func TestAPanicOfAProgramEndsItsCallOnly(t *testing.T) {
	for _, where := range []string{"Walk", "Judge", "Serve"} {
		t.Run(where, func(t *testing.T) {
			s, p, conn := newFaulty(t, rpc.Config{})
			p.in = where
			c := rpctest.NewCall(conn, p.message(1))
			if where == "Walk" {
				c.Placed = []rpc.Placed{{Position: 40, Length: 4}}
			}
			wantSystemErr(t, c.Run(s))
			if st := s.Stats(); st.Panics != 1 || st.InProgress != 0 {
				t.Fatalf("%d panics counted, %d calls in progress", st.Panics, st.InProgress)
			}
			p.in = ""
			if _, err := rpctest.NewCall(conn, p.message(2)).Run(s).Results(); err != nil {
				t.Errorf("the next call: %v", err)
			}
			if err := s.Drain(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
}

// counted is an xdr.Releaser that counts the calls of Release.
type counted struct{ released atomic.Int32 }

func (c *counted) Release() { c.released.Add(1) }

// If a program panics, the payloads that it has written are released once.
func TestAPanicGivesThePayloadsBack(t *testing.T) {
	s, p, conn := newFaulty(t, rpc.Config{})
	var first, second counted
	p.serve = func(c *rpc.Call, w *xdr.Writer) rpc.Outcome {
		w.Payload([]byte("some"), true, &first)
		w.Payload([]byte("data"), true, &second)
		panic("behind two payloads")
	}
	c := rpctest.NewCall(conn, p.message(1)).Run(s)
	wantSystemErr(t, c)
	if first.released.Load() != 1 || second.released.Load() != 1 || len(c.Payloads) != 0 {
		t.Errorf("released %d and %d times, %d payloads sent", first.released.Load(), second.released.Load(), len(c.Payloads))
	}
}

// If a call panics on a worker of the executor, the worker continues with the lane's next call.
func TestTheExecutorSurvivesAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, conn := newFaulty(t, rpc.Config{Workers: 1, LaneWorkers: 1})
		defer s.Close()
		p.serve = func(c *rpc.Call, w *xdr.Writer) rpc.Outcome {
			if c.Try {
				return rpc.WouldBlock("a lane")
			}
			panic("on the executor")
		}
		var all []*rpctest.Call
		for i := range uint32(5) {
			all = append(all, rpctest.NewCall(conn, p.message(i)).Go(s))
		}
		synctest.Wait()
		for _, c := range all {
			if c.End == rpctest.Open {
				t.Fatal("a call is not answered")
			}
			wantSystemErr(t, c)
		}
		if st := s.Stats(); st.Panics != 5 || st.Running != 0 || st.Queued != 0 || st.Workers != 1 || st.InProgress != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// If a function passed to Complete panics, the caller gets SYSTEM_ERR.
func TestAPanicInComplete(t *testing.T) {
	s, p, conn := newFaulty(t, rpc.Config{})
	var held counted
	var later sync.WaitGroup
	p.serve = func(c *rpc.Call, w *xdr.Writer) rpc.Outcome {
		c.Detach()
		later.Go(func() {
			c.Complete(func(w *xdr.Writer) rpc.Outcome {
				w.Payload([]byte("data"), true, &held)
				panic("completing")
			})
		})
		return rpc.Outcome{Pending: true}
	}
	wantSystemErr(t, rpctest.NewCall(conn, p.message(1)).Run(s))
	later.Wait()
	if st := s.Stats(); held.released.Load() != 1 || st.Panics != 1 || st.InProgress != 0 {
		t.Errorf("released %d times, %+v", held.released.Load(), st)
	}
}

// If a program detaches a call and then panics, package rpc does not answer the call. Another
// goroutine of the program still has to call Complete, or has already done so; then the call's
// record may already be in use for another call.
func TestAPanicOfADetachedCallIsNotAnsweredTwice(t *testing.T) {
	s, p, conn := newFaulty(t, rpc.Config{})
	for _, order := range []string{"completed before", "completed after"} {
		t.Run(order, func(t *testing.T) {
			var detached *rpc.Call
			complete := func() {
				detached.Complete(func(w *xdr.Writer) rpc.Outcome {
					w.Uint32(7)
					return rpc.Done
				})
			}
			p.serve = func(c *rpc.Call, w *xdr.Writer) rpc.Outcome {
				c.Detach()
				detached = c
				if order == "completed before" {
					complete()
				}
				panic("detached")
			}
			before := s.Stats().Panics
			c := rpctest.NewCall(conn, p.message(uint32(len(order)))).Go(s)
			if order == "completed after" {
				if c.End != rpctest.Open || s.Stats().InProgress != 1 {
					t.Fatalf("end %v, %d in progress before Complete", c.End, s.Stats().InProgress)
				}
				complete()
			}
			d, err := c.Results()
			if err != nil || d.Uint32() != 7 {
				t.Errorf("the results are not Complete's: %v", err)
			}
			if st := s.Stats(); st.Panics != before+1 || st.InProgress != 0 {
				t.Errorf("%+v", st)
			}
		})
	}
}

// After a panic, a call that must not be executed twice is not executed again. Its duplicates get
// the same answer, also those that wait for it.
func TestDuplicatesOfACallThatPanicked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, conn := newFaulty(t, rpc.Config{})
		defer s.Close()
		goOn := make(chan struct{})
		p.serve = func(c *rpc.Call, w *xdr.Writer) rpc.Outcome {
			if c.Try {
				p.executed.Add(-1)
				return rpc.WouldBlock("a lane")
			}
			<-goOn
			panic("half way")
		}
		first := rpctest.NewCall(conn, p.message(1)).Go(s)
		synctest.Wait()
		joined := rpctest.NewCall(conn, p.message(1)).Go(s)
		synctest.Wait()
		close(goOn)
		synctest.Wait()
		wantSystemErr(t, first)
		wantSystemErr(t, joined)
		wantSystemErr(t, rpctest.NewCall(conn, p.message(1)).Run(s))
		if n := p.executed.Load(); n != 1 {
			t.Errorf("executed %d times", n)
		}
	})
}

// Config.Panicked is called once for each place in the code that panics, with the stack.
// Stats.Panics counts all panics.
func TestEachPlaceOfAPanicIsReportedOnce(t *testing.T) {
	var reports []rpc.Panic
	s, p, conn := newFaulty(t, rpc.Config{Panicked: func(p *rpc.Panic) { reports = append(reports, *p) }})
	var nobody *faulty
	places := []func(){
		func() { placeOne() },
		func() { nobody.in = "nowhere" }, // a panic of the runtime: nil dereference
		func() { panic(errors.New("here")) },
	}
	for range 3 {
		for _, place := range places {
			p.serve = func(*rpc.Call, *xdr.Writer) rpc.Outcome {
				place()
				return rpc.Done
			}
			rpctest.NewCall(conn, p.message(uint32(p.executed.Load()))).Run(s)
		}
	}
	if n := s.Stats().Panics; n != 9 {
		t.Errorf("%d panics counted, want 9", n)
	}
	if len(reports) != 3 {
		t.Fatalf("%d panics reported, want one of each place: %v", len(reports), reports)
	}
	for i, want := range []string{"one", "nil pointer", "here"} {
		if r := reports[i]; !strings.Contains(fmt.Sprint(r.Value), want) || r.Procedure != "FAULT" || r.Program != p.Number() {
			t.Errorf("report %d: %v in %q of program %d", i, r.Value, r.Procedure, r.Program)
		}
	}
	if !strings.Contains(string(reports[0].Stack), "rpc_test.placeOne(") {
		t.Errorf("the stack does not show the place:\n%s", reports[0].Stack)
	}
}

//go:noinline
func placeOne() { panic("one") }

// The number of places for which Config.Panicked is called is bounded.
func TestPlacesOfPanicsAreBounded(t *testing.T) {
	reports := 0
	s, p, conn := newFaulty(t, rpc.Config{Panicked: func(p *rpc.Panic) { reports++ }})
	depth := 0
	p.serve = func(*rpc.Call, *xdr.Writer) rpc.Outcome {
		path(uint(depth))
		return rpc.Done
	}
	for depth = range 128 {
		rpctest.NewCall(conn, p.message(uint32(depth))).Run(s)
	}
	if n := s.Stats().Panics; n != 128 || reports != 64 {
		t.Errorf("%d panics counted, %d reported, want 128 and 64", n, reports)
	}
}

// path panics after seven nested calls. The stack is different for each n.
func path(n uint) { walk(n, 7) }

//go:noinline
func walk(n uint, left int) {
	if left == 0 {
		panic("at the end")
	}
	if n&1 == 0 {
		walk(n>>1, left-1)
	} else {
		walk(n>>1, left-1) // the same call from another line
	}
}
