package rpc_test

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// laned is a program whose Judge sets the lane of each call.
type laned struct {
	*rpctest.Program
	lane any
}

func (p *laned) Judge(a *rpc.Arrived, j *rpc.Judgement) rpc.Outcome {
	j.Lane = p.lane
	return rpc.Done
}

// All calls of one lane have the same memory group, and each lane has a group of its own. Calls
// without payload memory, or without a lane, have none.
func TestGroupOfALane(t *testing.T) {
	pool, err := mem.NewPool(mem.Config{Ceiling: mem.MinCeiling})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	s := rpc.NewServer(rpc.Config{Pool: pool})
	defer s.Close()
	p := &laned{Program: rpctest.NewProgram()}
	s.Register(p)
	conn := s.NewConn(peer, local, "tcp", true)
	xid := uint32(0)
	admit := func(lane any, procedure uint32, args func(*xdr.Writer)) *mem.Group {
		t.Helper()
		p.lane = lane
		xid++
		plan, ok := s.Admit(&rpctest.NewCall(conn, rpctest.Message(xid, procedure, args)).Call)
		if !ok {
			t.Fatal("not admitted")
		}
		return plan.Group
	}
	one := admit(1, rpctest.GET, u32(5000))
	if one == nil || admit(1, rpctest.GET, u32(1)) != one {
		t.Error("calls of one lane are not in one group")
	}
	if two := admit("two", rpctest.GET, u32(1)); two == nil || two == one {
		t.Error("two lanes are not in two groups")
	}
	if g := admit(nil, rpctest.GET, u32(1)); g != nil {
		t.Error("a call without a lane is in a group")
	}
	if g := admit(1, rpctest.NULL, nil); g != nil {
		t.Error("a call that needs no memory is in a group")
	}
	// If there are many lanes, the server deletes the groups of idle lanes, but not groups whose
	// memory is in use.
	held, ok := pool.NewShare().TryGetIn(one, 1)
	if !ok {
		t.Fatal("no memory")
	}
	two := admit("two", rpctest.GET, u32(1))
	for lane := range 1000 {
		admit(float64(lane), rpctest.GET, u32(1))
	}
	if admit(1, rpctest.GET, u32(1)) != one {
		t.Error("a busy lane was forgotten")
	}
	if admit("two", rpctest.GET, u32(1)) == two {
		t.Error("an idle lane was kept")
	}
	held.Release()
}

// Without Config.Pool, calls have no memory group.
func TestNoGroupsWithoutAPool(t *testing.T) {
	s := rpc.NewServer(rpc.Config{})
	defer s.Close()
	p := &laned{Program: rpctest.NewProgram(), lane: 1}
	s.Register(p)
	conn := s.NewConn(peer, local, "tcp", true)
	plan, ok := s.Admit(&rpctest.NewCall(conn, rpctest.Message(1, rpctest.GET, u32(1))).Call)
	if !ok || plan.Group != nil {
		t.Error(ok, plan)
	}
}
