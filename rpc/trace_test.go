package rpc_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// A trace sees each call that begins while it runs, with the first word of its results and what the program told of
// its parts, and none before or afterwards.
func TestTrace(t *testing.T) {
	s, p, conn := newServer(t, rpc.Config{})
	p.Release(42)
	call := func() { ended(t, stall(conn, 42).Go(s).Done) }
	call()
	seen := make(chan rpc.Ending, 4)
	stop := s.Trace(func(e *rpc.Ending) { seen <- *e })
	stopOther := s.Trace(func(*rpc.Ending) {})
	call()
	stop()
	call()
	stopOther()
	call()
	if len(seen) != 1 {
		t.Fatalf("it sees %d calls", len(seen))
	}
	e := <-seen
	if !e.Answered || e.Answer != 42 || e.Name != "STALL" || e.Nanoseconds <= 0 || e.Status != rpc.StatusSuccess || e.Conn != conn {
		t.Errorf("%+v", e)
	}
	if len(e.Steps) != 1 || e.Steps[0].Number != 42 || e.Steps[0].Status != 7 || string(e.Steps[0].Object()) != "stalled" {
		t.Errorf("its parts: %+v", e.Steps)
	}
}

// A trace sees calls that are refused before they are executed, and takes no time of them.
func TestTraceOfRefusedCalls(t *testing.T) {
	s, _, conn := newServer(t, rpc.Config{})
	var seen []rpc.Ending
	defer s.Trace(func(e *rpc.Ending) { seen = append(seen, *e) })()
	h := rpc.CallHeader{XID: 7, Program: rpctest.Number, Version: 1, Procedure: 1000}
	refused := func() { rpctest.NewCall(conn, rpctest.CallMessage(h, func(*xdr.Writer) {})).Run(s) }
	refused()
	h.Procedure, h.Cred = rpctest.NULL, rpc.AuthBytes{Flavor: 4711}
	refused()
	want := []rpc.Status{rpc.StatusProcUnavail, rpc.StatusAuthError}
	if len(seen) != len(want) {
		t.Fatalf("it sees %d calls", len(seen))
	}
	for i, e := range seen {
		if e.Status != want[i] || e.XID != 7 || e.Program != rpctest.Number || e.Answered || e.Nanoseconds != 0 {
			t.Errorf("%+v", e)
		}
	}
}

// The results of a protection's own call, such as one that makes a context, are no status of the program.
func TestTraceOfAProtectionsCall(t *testing.T) {
	s, _, conn := newServer(t, rpc.Config{})
	s.Protect(rpctest.FlavorSeal, rpctest.NewSeal())
	var seen []rpc.Ending
	defer s.Trace(func(e *rpc.Ending) { seen = append(seen, *e) })()
	newKey(t, s, conn)
	if len(seen) != 1 || seen[0].Answered || seen[0].Status != rpc.StatusSuccess {
		t.Errorf("%+v", seen)
	}
}

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

// Conns describes the connections that exist: what they were used for, who called first, and when a call was heard last.
func TestConns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, conn := newServer(t, rpc.Config{})
		defer s.Close()
		p.Release(1)
		other := s.NewConn(peer, local, "tcp", true)
		began := time.Now()
		time.Sleep(time.Second)
		conn.Notes(2)
		ended(t, stall(conn, 1).Go(s).Done)
		s.Heard()
		time.Sleep(time.Hour)
		all := s.Conns()
		if len(all) != 2 {
			t.Fatalf("%+v", all)
		}
		slices.SortFunc(all, func(a, b rpc.ConnInfo) int { return int(a.ID) - int(b.ID) })
		if c := all[0]; c.Conn != conn || len(c.Programs) != 1 || c.Programs[0] != [2]uint32{rpctest.Number, rpctest.LowVersion} || len(c.Flavors) != 1 || !slices.Equal(c.Noted, []uint32{2}) ||
			!c.Heard.Equal(began.Add(time.Second)) || !c.Began.Equal(began) {
			t.Errorf("the one that was used: %+v", c)
		}
		if c := all[1]; c.Conn != other || c.Programs != nil || c.Flavors != nil || !c.Heard.IsZero() {
			t.Errorf("the other: %+v", c)
		}
		conn.Close()
		other.Close()
		if all := s.Conns(); len(all) != 0 {
			t.Errorf("at the end: %+v", all)
		}
	})
}

// What was put off is listed until its client has not asked for long, once for each thing that clients wait for.
func TestPutOffCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, conn := newServer(t, rpc.Config{})
		defer s.Close()
		p.Release(1)
		call := stall(conn, 1)
		call.Go(s)
		ended(t, call.Done)
		began := time.Now()
		for range 3 {
			call.PutOff(rpc.WaitGrace, 5, 6, []byte("object"))
			time.Sleep(10 * time.Second)
		}
		call.PutOff(rpc.WaitShare, 5, 6, nil)
		all := s.Calls()
		if len(all) != 2 || all[0].Stage != rpc.PutOff || all[0].Wait != rpc.WaitGrace || all[0].Part != 5 || all[0].Group != 6 || string(all[0].Object) != "object" ||
			!all[0].First.Equal(began) || !all[0].Since.Equal(began.Add(20*time.Second)) || all[1].Wait != rpc.WaitShare {
			t.Errorf("%+v", all)
		}
		time.Sleep(10 * time.Second)
		if all := s.Calls(); len(all) != 1 || all[0].Wait != rpc.WaitShare {
			t.Errorf("10 s later: %+v", all)
		}
		conn.Close()
		s.Heard()
		if n := s.PutOffs(); n != 0 {
			t.Errorf("when the client has gone, %d are kept", n)
		}
	})
}
