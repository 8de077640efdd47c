package rpc_test

import (
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
)

// crowded runs f with a server in fake time. ready is the number of goroutines that wait for a
// processor.
func crowded(t *testing.T, f func(s *rpc.Server, p *rpctest.Program, conn *rpc.Conn, ready *atomic.Int64)) {
	synctest.Test(t, func(t *testing.T) {
		var ready atomic.Int64
		s, p, conn := newServer(t, rpc.Config{Workers: 512, LaneWorkers: 256, Ready: func() int { return int(ready.Load()) }})
		defer s.Close()
		f(s, p, conn, &ready)
	})
}

var processors = runtime.GOMAXPROCS(0)

// While many goroutines wait for the processors, few workers run calls. When none waits any more,
// all calls that wait get a worker, without any further event.
func TestPaceOfACrowd(t *testing.T) {
	crowded(t, func(s *rpc.Server, p *rpctest.Program, conn *rpc.Conn, ready *atomic.Int64) {
		ready.Store(1000)
		const calls = 200
		var all []*rpctest.Call
		for range calls {
			all = append(all, stall(conn, 1).Go(s))
			time.Sleep(time.Millisecond / 4)
			synctest.Wait()
		}
		// One lane gets at most three quarters of the workers that may run. The first calls came before the
		// crowd was noticed.
		if n := s.Stats().Running; n > 3*processors+1 {
			t.Errorf("%d calls run beside a crowd", n)
		}
		other := stall(conn, 2).Go(s)
		synctest.Wait()
		if len(p.Arrived(2)) != 1 {
			t.Error("a call in another lane does not run")
		}
		ready.Store(0)
		time.Sleep(100 * time.Millisecond)
		if n := s.Stats().Running; n != calls+1 {
			t.Errorf("%d calls run after the crowd has gone, want all %d", n, calls+1)
		}
		p.Release(1)
		p.Release(2)
		for _, c := range append(all, other) {
			<-c.Done
		}
	})
}

// Calls that are stuck do not count: other calls of the same lane run beside them, although the
// processors are crowded.
func TestPaceBesideStuckCalls(t *testing.T) {
	crowded(t, func(s *rpc.Server, p *rpctest.Program, conn *rpc.Conn, ready *atomic.Int64) {
		ready.Store(1000)
		var all []*rpctest.Call
		for range 8 * processors {
			all = append(all, stall(conn, 1).Go(s))
			time.Sleep(2 * time.Millisecond)
		}
		synctest.Wait()
		before := s.Stats().Running
		if before == 8*processors {
			t.Fatal("the calls are not limited")
		}
		time.Sleep(5 * time.Second)
		if n := s.Stats().Running; n != 8*processors {
			t.Errorf("%d calls run after 5 s, %d before; want %d", n, before, 8*processors)
		}
		p.Release(1)
		for _, c := range all {
			<-c.Done
		}
	})
}

// A call that runs gives way to waiting calls after 500 us while the processors are crowded, and
// after 100 ms if they are not. It never gives way if no call waits.
func TestTurnOfACall(t *testing.T) {
	crowded(t, func(s *rpc.Server, p *rpctest.Program, conn *rpc.Conn, ready *atomic.Int64) {
		first := stall(conn, 1).Go(s)
		synctest.Wait()
		gives := func(ran time.Duration) bool { return first.GiveWay(ran) }
		if gives(time.Hour) {
			t.Error("a call gives way although no other call waits")
		}
		all := []*rpctest.Call{first}
		more := func(n int) {
			for range n {
				all = append(all, stall(conn, 1).Go(s))
				time.Sleep(time.Millisecond)
			}
			synctest.Wait()
		}
		more(400) // more than a lane runs
		if gives(99*time.Millisecond) || !gives(101*time.Millisecond) {
			t.Error("beside waiting calls the turn is not 100 ms")
		}
		ready.Store(1000)
		more(1)
		if gives(499*time.Microsecond) || !gives(501*time.Microsecond) {
			t.Error("while the processors are crowded the turn is not 500 us")
		}
		p.Release(1)
		for _, c := range all {
			<-c.Done
		}
	})
}
