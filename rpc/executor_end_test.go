package rpc_test

import (
	"context"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// When a connection ends, the executor drops its calls that wait for a worker, and their entries in
// the duplicate-request cache. Then the same call over another connection is executed. Calls that
// run, or that were executed in part, continue to their end.
func TestQueuedCallsOfEndedConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, conn := newServer(t, rpc.Config{LaneWorkers: 1})
		defer s.Close()
		other := s.NewConn(netip.AddrPortFrom(conn.Peer.Addr(), conn.Peer.Port()+1), local, "tcp", true)
		running := stall(conn, 1).Go(s)
		synctest.Wait()
		compound := func(c *rpc.Conn, xid uint32, lane uint32) *rpctest.Call {
			k := rpctest.NewCall(c, rpctest.Message(xid, rpctest.COMPOUND, func(w *xdr.Writer) {
				rpctest.PutCompound(w, []rpctest.Op{{Code: rpctest.OpCount}, {Code: rpctest.OpStall, N: lane}})
			})).Go(s)
			synctest.Wait()
			return k
		}
		begun := compound(conn, 77, 1)
		var waiting []*rpctest.Call
		hold := rpctest.Message(99, rpctest.HOLD, u32(1))
		for xid := range uint32(10) {
			waiting = append(waiting, rpctest.NewCall(conn, rpctest.Message(100+xid, rpctest.HOLD, u32(1))).Go(s))
		}
		waiting = append(waiting, rpctest.NewCall(conn, hold).Go(s))
		synctest.Wait()
		theirs := rpctest.NewCall(other, hold).Go(s) // the same call from another port, so that it may be another client's
		synctest.Wait()
		if n := s.Stats().ReplyCache.Entries; n != 11 {
			t.Errorf("%d entries", n)
		}
		conn.Close()
		synctest.Wait()
		for _, c := range waiting {
			select {
			case <-c.Done:
			default:
				t.Fatal("a call of an ended connection waits on")
			}
			if c.End != rpctest.Dropped {
				t.Errorf("it ended with %v", c.End)
			}
		}
		if st := s.Stats(); st.InProgress != 3 || st.Queued != 2 || st.ReplyCache.Entries != 1 {
			t.Errorf("%+v", st)
		}
		late := stall(conn, 1).Go(s)
		ended(t, late.Done)
		if late.End != rpctest.Dropped {
			t.Errorf("a call that came behind the end of its connection ended with %v", late.End)
		}
		p.Release(1)
		for _, c := range []*rpctest.Call{running, begun, theirs} {
			ended(t, c.Done)
			if c.End == rpctest.Dropped {
				t.Error("a call was dropped that had begun, or is another connection's")
			}
		}
	})
}

// A copy of a running call that waits for that call's end is dropped when the copy's connection
// ends, because there is no peer to answer. So a client that reconnects repeatedly while its call
// is stalled does not fill the memory with copies.
func TestCopiesOfEndedConnectionsAreDropped(t *testing.T) {
	s, p, conn := newServer(t, rpc.Config{})
	const xid = 5
	hold := rpctest.Message(xid, rpctest.HOLD, u32(1))
	first := rpctest.NewCall(conn, hold).Go(s)
	ended(t, p.Arrived(1))
	var copies []*rpctest.Call
	for i := range uint16(5) {
		// A copy from the same port comes from the same client. A copy from another port may come
		// from another client.
		again := s.NewConn(netip.AddrPortFrom(conn.Peer.Addr(), conn.Peer.Port()+i%2), local, "tcp", true)
		c := rpctest.NewCall(again, hold).Go(s)
		again.Close()
		copies = append(copies, c)
	}
	for i, c := range copies {
		select {
		case <-c.Done:
			if c.End != rpctest.Dropped {
				t.Errorf("copy %d ended with %v", i, c.End)
			}
		default:
			t.Errorf("copy %d is kept for a connection that has ended", i)
		}
	}
	if n := s.Stats().InProgress; n != 1 {
		t.Errorf("%d calls are in progress", n)
	}
	last := rpctest.NewCall(s.NewConn(conn.Peer, local, "tcp", true), hold).Go(s)
	p.Release(1)
	for _, c := range []*rpctest.Call{first, last} {
		ended(t, c.Done)
		if c.End == rpctest.Dropped {
			t.Error("the call itself, or a copy whose connection lives, was not answered")
		}
	}
	if err := s.Drain(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestIdleWorkersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, conn := newServer(t, rpc.Config{IdleWorker: time.Minute})
		defer s.Close()
		var all []*rpctest.Call
		for range 20 {
			all = append(all, stall(conn, 1).Go(s))
		}
		p.Release(1)
		for _, c := range all {
			ended(t, c.Done)
		}
		synctest.Wait()
		if st := s.Stats(); st.Workers == 0 {
			t.Fatalf("%+v", st)
		}
		time.Sleep(59 * time.Second)
		stall(conn, 1).Run(s) // after this call, one worker is idle
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if st := s.Stats(); st.Workers != 1 {
			t.Fatalf("%+v", st)
		}
		time.Sleep(time.Hour)
		if st := s.Stats(); st.Workers != 0 {
			t.Fatalf("%+v", st)
		}
	})
}

// Close drops the waiting calls and returns when the running calls have ended.
func TestCloseOfServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, conn := newServer(t, rpc.Config{LaneWorkers: 2})
		var all []*rpctest.Call
		for range 10 {
			all = append(all, stall(conn, 1).Go(s))
		}
		synctest.Wait()
		closed := make(chan struct{})
		go func() { s.Close(); close(closed) }()
		synctest.Wait()
		dropped := 0
		for _, c := range all {
			select {
			case <-c.Done:
				dropped++
			default:
			}
		}
		if dropped != 8 {
			t.Errorf("%d calls were dropped", dropped)
		}
		select {
		case <-closed:
			t.Error("Close did not wait for what runs")
		default:
		}
		p.Release(1)
		ended(t, closed)
		if c := rpctest.NewCall(conn, rpctest.Message(1, rpctest.NULL, nil)).Run(s); c.End != rpctest.Dropped {
			t.Errorf("a call after Close ended with %v", c.End)
		}
		if err := s.Drain(context.Background()); err != nil || s.Stats().InProgress != 0 {
			t.Error(err)
		}
	})
}

// CloseWithin drops the waiting calls. If running calls do not end in time, it returns while they
// still run.
func TestCloseWithinLeavesStuckCallsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, conn := newServer(t, rpc.Config{LaneWorkers: 2})
		var all []*rpctest.Call
		for range 10 {
			all = append(all, stall(conn, 1).Go(s))
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		began := time.Now()
		if err := s.CloseWithin(ctx); err != context.DeadlineExceeded {
			t.Errorf("with two calls that do not end: %v", err)
		}
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("it took %v", took)
		}
		if st := s.Stats(); st.Running != 2 || st.Queued != 0 || st.InProgress != 2 {
			t.Errorf("%+v", st)
		}
		p.Release(1)
		for _, c := range all {
			ended(t, c.Done)
		}
		if err := s.CloseWithin(t.Context()); err != nil {
			t.Errorf("when they have ended: %v", err)
		}
	})
}
