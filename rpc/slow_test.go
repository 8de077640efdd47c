package rpc_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// A call that took long is told when it ends, with the stage in which it was longest.
func TestCallThatTookLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := make(chan rpc.Delay, 4)
		s, p, conn := newServer(t, rpc.Config{Workers: 8, LaneWorkers: 1, Slow: time.Minute, TookLong: func(d *rpc.Delay) { told <- *d }})
		defer s.Close()
		first := stall(conn, 1).Go(s)
		ended(t, p.Arrived(1))
		time.Sleep(50 * time.Second)
		second := stall(conn, 1).Go(s)
		time.Sleep(40 * time.Second)
		p.Release(1)
		ended(t, first.Done)
		ended(t, second.Done)
		synctest.Wait()
		if len(told) != 1 {
			t.Fatalf("%d calls are told", len(told))
		}
		if d := <-told; d.Stage != rpc.Executing || d.Took != 90*time.Second || d.Longest != 90*time.Second || d.Name != "STALL" {
			t.Errorf("%+v", d)
		}
		p.Release(2)
		ended(t, p.Arrived(1))
	})
}
