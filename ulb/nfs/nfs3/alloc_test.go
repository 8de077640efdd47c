//go:build !race

package nfs3_test

// Under the race detector, a sync.Pool drops items at random, so allocations cannot be counted.

import (
	"encoding/binary"
	"os"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// A call that does not have to wait allocates nothing, from the first byte of the call to the
// last byte of the reply. This holds for a file system in memory and for a directory of the
// machine.
func TestSmallCallsDoNotAllocate(t *testing.T) {
	t.Run("memory", func(t *testing.T) { smallCallsDoNotAllocate(t, newSite(t)) })
	t.Run("local", func(t *testing.T) {
		fs, err := local.New(local.Config{Root: t.TempDir(), StateDir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { fs.Close() })
		s := newSiteOver(t, nil, fs)
		s.uid = uint32(os.Getuid())
		smallCallsDoNotAllocate(t, s)
	})
}

func smallCallsDoNotAllocate(t *testing.T, s *site) {
	f := s.create(s.root, "f", 0o644)
	data := make([]byte, 4096)
	s.write(f, 0, string(data), wire.FileSync)
	for _, c := range []struct {
		p    wire.Procedure
		args encoder
	}{
		{wire.ProcNull, nil},
		{wire.ProcGetattr, &wire.Getattr3Args{Object: f}},
		{wire.ProcAccess, &wire.Access3Args{Object: f, Access: 0x3f}},
		{wire.ProcLookup, &wire.Lookup3Args{What: s.at(s.root, "f")}},
		{wire.ProcRead, &wire.Read3Args{FileHandle: f, Count: 4096}},
		{wire.ProcWrite, &wire.Write3Args{FileHandle: f, Count: 4096, Data: eligible(string(data))}},
	} {
		t.Run(c.p.String(), func(t *testing.T) {
			m := s.message(c.p, c.args)
			call := rpctest.NewCall(s.conn, m)
			again := func() {
				s.xid++ // a new XID makes it another call, not a repeated one
				binary.BigEndian.PutUint32(m, s.xid)
				call.Again(s.conn, m)
				s.serve(call)
			}
			s.serve(call)
			// After some calls, stored replies reuse the memory of earlier ones.
			for range 5000 {
				again()
			}
			if call.Detached {
				t.Skip("not served in place on this file system")
			}
			if n := testing.AllocsPerRun(200, again); n != 0 {
				t.Errorf("%v allocations a call", n)
			}
		})
	}
}
