package rpc_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// When a call ends that took long, the server tells how long it took, and the stage in which it was longest.
func TestCallThatTookLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := make(chan rpc.Delay, 4)
		s, p, conn := newServer(t, rpc.Config{Workers: 8, LaneWorkers: 1, Slow: time.Minute, TookLong: func(d *rpc.Delay) { told <- *d }})
		defer s.Close()
		calls := []*rpctest.Call{stall(conn, 1).Go(s)}
		ended(t, p.Arrived(1))
		for _, later := range []time.Duration{10 * time.Second, 40 * time.Second} {
			time.Sleep(later)
			calls = append(calls, stall(conn, 1).Go(s)) // it waits for the worker
		}
		time.Sleep(40 * time.Second)
		p.Release(1)
		for _, c := range calls {
			ended(t, c.Done)
		}
		synctest.Wait()
		if len(told) != 2 {
			t.Fatalf("%d calls are told", len(told))
		}
		if d := <-told; d.Stage != rpc.Executing || d.Took != 90*time.Second || d.Longest != 90*time.Second || d.Name != "STALL" {
			t.Errorf("the first: %+v", d)
		}
		if d := <-told; d.Stage != rpc.Queued || d.Took != 80*time.Second || d.Longest != 80*time.Second {
			t.Errorf("the second: %+v", d)
		}
	})
}

// SetSlow decides which calls took long, also for those that are in progress.
func TestSlowIsChangedWhileCallsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := make(chan rpc.Delay, 4)
		s, p, conn := newServer(t, rpc.Config{Workers: 8, LaneWorkers: 1, TookLong: func(d *rpc.Delay) { told <- *d }})
		defer s.Close()
		lane := uint32(0)
		lasts := func(d time.Duration, during func()) {
			lane++
			c := stall(conn, lane).Go(s)
			ended(t, p.Arrived(lane))
			during()
			time.Sleep(d)
			p.Release(lane)
			ended(t, c.Done)
			synctest.Wait()
		}
		lasts(time.Hour, func() {})
		if len(told) != 0 {
			t.Errorf("without a limit: %+v", <-told)
		}
		lasts(time.Minute, func() { s.SetSlow(time.Minute) })
		if len(told) != 1 {
			t.Error("a call that began before the change is not told")
		} else {
			<-told
		}
		lasts(time.Minute, func() { s.SetSlow(time.Hour) })
		lasts(time.Hour, func() { s.SetSlow(0) })
		if len(told) != 0 {
			t.Errorf("it took less than the limit, or there is none: %+v", <-told)
		}
	})
}

// The server tells what a call waited for, if the call was detached for most of its time.
func TestDetachedCallThatTookLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := make(chan rpc.Delay, 1)
		s := rpc.NewServer(rpc.Config{Slow: time.Minute, TookLong: func(d *rpc.Delay) { told <- *d }})
		d := &detaching{rpctest.NewProgram(), make(chan func(), 1)}
		s.Register(d)
		defer s.Close()
		c := rpctest.NewCall(s.NewConn(peer, local, "tcp", true), rpctest.Message(7, rpctest.ECHO, func(w *xdr.Writer) { w.String("hello") })).Go(s)
		resume := ended(t, d.resume)
		time.Sleep(2 * time.Minute)
		resume()
		ended(t, c.Done)
		if d := ended(t, told); d.Stage != rpc.Detached || d.Wait != rpc.WaitTurn || d.Longest != 2*time.Minute || d.XID != 7 {
			t.Errorf("%+v", d)
		}
	})
}
