package nfs3_test

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// Payload memory for calls is limited by the lane of the call's file system, whatever the other
// arguments are. A call without a valid handle belongs to no lane.
func TestMemoryIsBoundedByTheFileSystemsLane(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		group := func(p wire.Procedure, args encoder) *mem.Group {
			t.Helper()
			plan, ok := s.rpc.Admit(&rpctest.NewCall(s.conn, s.message(p, args)).Call)
			if !ok {
				t.Fatalf("%v is not admitted", p)
			}
			return plan.Group
		}
		read := &wire.Read3Args{FileHandle: s.root, Count: 1 << 20}
		want := group(wire.ProcRead, read)
		if want == nil {
			t.Fatal("READ is in no group")
		}
		for p, args := range map[wire.Procedure]encoder{
			wire.ProcReadlink:    &wire.Readlink3Args{Symlink: s.root},
			wire.ProcReaddir:     &wire.Readdir3Args{Dir: s.root, Count: 32 << 10},
			wire.ProcReaddirPlus: &wire.ReaddirPlus3Args{Dir: s.root, DirCount: 32 << 10, MaxCount: 32 << 10},
		} {
			if group(p, args) != want {
				t.Errorf("%v is in another group", p)
			}
		}
		// A WRITE needs memory if its data has not arrived yet.
		m := s.message(wire.ProcWrite, &wire.Write3Args{FileHandle: s.root, Count: 1 << 20, Data: xdr.Eligible{Data: make([]byte, 1<<20)}})
		c := rpctest.NewCall(s.conn, m)
		c.Message = m[:rpc.AdmitPrefix]
		if plan, ok := s.rpc.Admit(&c.Call); !ok || plan.Group != want {
			t.Errorf("WRITE is in another group (admitted: %v)", ok)
		}
		if group(wire.ProcGetattr, &wire.Getattr3Args{Object: s.root}) != nil {
			t.Error("GETATTR is in a group")
		}
		read.FileHandle.Data = []byte("nobody's")
		if group(wire.ProcRead, read) != nil {
			t.Error("a READ of nothing is in a group")
		}
	})
}
