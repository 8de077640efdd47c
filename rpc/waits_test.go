package rpc_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// The statistics say what calls wait for now, and for how long calls have waited.
func TestWaitsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, conn := newServer(t, rpc.Config{Workers: 8, LaneWorkers: 1})
		defer s.Close()
		running := stall(conn, 1).Go(s)
		ended(t, p.Arrived(1))
		waits := stall(conn, 1).Go(s)
		synctest.Wait()
		if w := s.Stats().Waits; w[rpc.ForDisk] != (rpc.WaitStats{Now: 1}) || w[rpc.ForThread] != (rpc.WaitStats{Now: 1}) {
			t.Errorf("one call runs and one waits: %+v", w)
		}
		time.Sleep(3 * time.Second)
		p.Release(1)
		ended(t, running.Done)
		ended(t, waits.Done)
		synctest.Wait()
		w := s.Stats().Waits
		if w[rpc.ForDisk] != (rpc.WaitStats{Ended: 2, Took: 3 * time.Second}) {
			t.Errorf("for the disk: %+v", w[rpc.ForDisk])
		}
		if w[rpc.ForThread] != (rpc.WaitStats{Ended: 1, Took: 3 * time.Second}) {
			t.Errorf("for a thread: %+v", w[rpc.ForThread])
		}
	})
}

// A call that its program has detached waits for what the program says.
func TestWaitsOfDetachedCallsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := rpc.NewServer(rpc.Config{})
		d := &detaching{rpctest.NewProgram(), make(chan func(), 1)}
		s.Register(d)
		defer s.Close()
		c := rpctest.NewCall(s.NewConn(peer, local, "tcp", true), rpctest.Message(7, rpctest.ECHO, func(w *xdr.Writer) { w.String("hello") })).Go(s)
		resume := ended(t, d.resume)
		time.Sleep(2 * time.Second)
		if w := s.Stats().Waits[rpc.ForTurn]; w != (rpc.WaitStats{Now: 1}) {
			t.Errorf("while it waits: %+v", w)
		}
		resume()
		ended(t, c.Done)
		if w := s.Stats().Waits[rpc.ForTurn]; w != (rpc.WaitStats{Ended: 1, Took: 2 * time.Second}) {
			t.Errorf("afterwards: %+v", w)
		}
	})
}
