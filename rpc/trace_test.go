package rpc_test

import (
	"testing"

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
