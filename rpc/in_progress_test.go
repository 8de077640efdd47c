package rpc_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// Calls shows which calls a worker executes, with what they do and since when, and which wait for a worker.
func TestCallsInProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, conn := newServer(t, rpc.Config{Workers: 8, LaneWorkers: 1})
		defer s.Close()
		if all := s.Calls(); len(all) != 0 {
			t.Errorf("at the start: %+v", all)
		}
		began := time.Now()
		running := stall(conn, 1).Go(s)
		ended(t, p.Arrived(1))
		time.Sleep(time.Second)
		waits := stall(conn, 1).Go(s)
		synctest.Wait()
		all := s.Calls()
		if len(all) != 2 {
			t.Fatalf("%+v", all)
		}
		c := all[0]
		if c.Stage != rpc.Executing || c.Conn != conn || c.Name != "STALL" || c.Procedure != rpctest.STALL || c.Lane != uint32(1) || !c.First.Equal(began) {
			t.Errorf("the call that runs: %+v", c)
		}
		if c.Part != 1 || c.Group != rpctest.STALL || string(c.Object) != "stalled" {
			t.Errorf("what it does: %+v", c)
		}
		if c := all[1]; c.Stage != rpc.Queued || c.Lane != uint32(1) || !c.Since.Equal(began.Add(time.Second)) || c.Object != nil {
			t.Errorf("the call that waits: %+v", c)
		}
		p.Release(1)
		ended(t, running.Done)
		ended(t, waits.Done)
		synctest.Wait()
		if all := s.Calls(); len(all) != 0 {
			t.Errorf("at the end: %+v", all)
		}
	})
}

// A list of very many waiting calls says how many it leaves out.
func TestVeryManyCallsInProgress(t *testing.T) {
	s, p, conn := newServer(t, rpc.Config{Workers: 8, LaneWorkers: 1})
	const n = 1000
	var calls []*rpctest.Call
	for range n {
		calls = append(calls, stall(conn, 1).Go(s))
	}
	ended(t, p.Arrived(1))
	shown, more := 0, 0
	for _, c := range s.Calls() {
		if more += c.More; c.More == 0 {
			shown++
		}
	}
	if shown+more != n || shown > 300 {
		t.Errorf("%d calls are shown, and %d are not", shown, more)
	}
	p.Release(1)
	for _, c := range calls {
		ended(t, c.Done)
	}
}

// detaching detaches each ECHO, once, until the test resumes it.
type detaching struct {
	*rpctest.Program
	resume chan func()
}

func (d *detaching) Serve(c *rpc.Call, w *xdr.Writer) rpc.Outcome {
	if c.Header.Procedure != rpctest.ECHO || c.Progress != nil {
		return d.Program.Serve(c, w)
	}
	c.Progress = d
	c.WaitsFor(rpc.WaitTurn)
	c.Detach()
	d.resume <- func() { c.Resume("lane") }
	return rpc.Outcome{Pending: true}
}

// A call that its program has detached is shown with what it waits for, until it is resumed.
func TestDetachedCallsInProgress(t *testing.T) {
	s := rpc.NewServer(rpc.Config{})
	d := &detaching{rpctest.NewProgram(), make(chan func(), 1)}
	s.Register(d)
	t.Cleanup(s.Close)
	c := rpctest.NewCall(s.NewConn(peer, local, "tcp", true), rpctest.Message(7, rpctest.ECHO, func(w *xdr.Writer) { w.String("hello") })).Go(s)
	resume := ended(t, d.resume)
	all := s.Calls()
	if len(all) != 1 || all[0].Stage != rpc.Detached || all[0].Wait != rpc.WaitTurn || all[0].XID != 7 || all[0].Procedure != rpctest.ECHO {
		t.Errorf("%+v", all)
	}
	resume()
	ended(t, c.Done)
	for _, is := range s.Calls() {
		if is.Stage == rpc.Detached {
			t.Errorf("afterwards: %+v", is)
		}
	}
}

// Lists of calls and the calls themselves do not disturb each other.
func TestCallsAreListedWhileTheyRun(t *testing.T) {
	s, p, conn := newServer(t, rpc.Config{})
	end, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		for {
			select {
			case <-end:
				return
			default:
				s.Calls()
			}
		}
	}()
	for lane := range uint32(200) {
		p.Release(lane)
		a, b := stall(conn, lane).Go(s), stall(conn, lane).Go(s)
		later := rpctest.NewCall(conn, rpctest.Message(lane<<16+1, rpctest.LATER, u32(1))).Go(s)
		ended(t, a.Done)
		ended(t, b.Done)
		ended(t, later.Done)
	}
	close(end)
	<-over
	p.Wait()
}
