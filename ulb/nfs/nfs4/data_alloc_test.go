//go:build !race

package nfs4_test

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// READ and WRITE by a stateid, and the GETATTR that goes with them, allocate nothing.
func TestDataDoesNotAllocate(t *testing.T) {
	t.Run("in memory", func(t *testing.T) { dataDoesNotAllocate(t, openSite(t)) })
	t.Run("in a directory", func(t *testing.T) { dataDoesNotAllocate(t, openSiteOver(t, directory(t))) })
}

func dataDoesNotAllocate(t *testing.T, s *nfs4test.Site) {
	f := newFiler(t, s, 1)
	o := f.create("file", "me", both, 0)
	f.want(wire.NFS4OK, putFH(o.fh), opWrite(o.Stateid, 0, string(make([]byte, 8192))))
	lock := f.lock(o.fh, opFirstLock(o.Stateid, "locker", wire.ReadLt, 0, 1))
	getattr := nfs4test.Op{Number: wire.OpGetattr, Args: &wire.Getattr4Args{AttrRequest: wire.Bits(
		wire.Fattr4Type, wire.Fattr4Change, wire.Fattr4Size, wire.Fattr4SpaceUsed, wire.Fattr4TimeModify, wire.Fattr4TimeMetadata)}}
	for _, c := range []struct {
		name string
		ops  []nfs4test.Op
	}{
		{"READ", []nfs4test.Op{putFH(o.fh), opRead(o.Stateid, 0, 4096), getattr}},
		{"READ with a lock", []nfs4test.Op{putFH(o.fh), opRead(lock, 0, 4096), getattr}},
		{"READ without a state", []nfs4test.Op{putFH(o.fh), opRead(state.Anonymous, 0, 4096), getattr}},
		{"WRITE", []nfs4test.Op{putFH(o.fh), opWrite(o.Stateid, 0, string(make([]byte, 4096))), getattr}},
	} {
		f.want(wire.NFS4OK, c.ops...)
		message := f.Message("", c.ops...)
		call := f.End(f.Begin(message))
		if call.Detached {
			continue // this file system has to wait for the operation
		}
		again := func() {
			call.Again(f.Conn, message)
			f.Serve(call)
		}
		for range 100 {
			again()
		}
		if n := testing.AllocsPerRun(200, again); n != 0 {
			t.Errorf("%s: %v allocations", c.name, n)
		}
	}
}
