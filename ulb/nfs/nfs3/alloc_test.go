//go:build !race

package nfs3_test

// Under the race detector a sync.Pool forgets at random.

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// What is served in place allocates nothing, from the first byte of the call to
// the last of the reply.
func TestSmallCallsDoNotAllocate(t *testing.T) {
	s := newSite(t)
	f := s.create(s.root, "f", 0o644)
	s.write(f, 0, "some data", wire.Unstable)
	for _, c := range []struct {
		p    wire.Procedure
		args encoder
	}{
		{wire.ProcNull, nil},
		{wire.ProcGetattr, &wire.Getattr3Args{Object: f}},
		{wire.ProcAccess, &wire.Access3Args{Object: f, Access: 0x3f}},
		{wire.ProcLookup, &wire.Lookup3Args{What: s.at(s.root, "f")}},
		{wire.ProcRead, &wire.Read3Args{FileHandle: f, Count: 4096}},
	} {
		t.Run(c.p.String(), func(t *testing.T) {
			m := s.message(c.p, c.args)
			call := rpctest.NewCall(s.conn, m)
			s.serve(call)
			if n := testing.AllocsPerRun(200, func() {
				call.Again(s.conn, m)
				s.serve(call)
			}); n != 0 {
				t.Errorf("%v allocations a call", n)
			}
		})
	}
}
