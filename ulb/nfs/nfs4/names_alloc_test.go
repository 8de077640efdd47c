//go:build !race

package nfs4_test

// Under the race detector, a sync.Pool drops items at random, so allocations cannot be counted.

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// linuxAttributes are the attributes that the Linux client requests.
var linuxAttributes = []uint32{
	wire.Fattr4Type, wire.Fattr4Change, wire.Fattr4Size, wire.Fattr4FSID, wire.Fattr4FileID, wire.Fattr4Mode, wire.Fattr4Numlinks,
	wire.Fattr4Owner, wire.Fattr4OwnerGroup, wire.Fattr4Rawdev, wire.Fattr4SpaceUsed, wire.Fattr4TimeAccess,
	wire.Fattr4TimeMetadata, wire.Fattr4TimeModify, wire.Fattr4MountedOnFileID,
}

// An operation that does not have to wait allocates nothing, also in exports below the tree of
// names.
func TestNamesDoNotAllocate(t *testing.T) {
	s := treeSite(t, "/data", "/data/dir/below")
	p := s.Peer(2)
	dir := putFH(handleOf(t, p, "data"))
	file := putFH(handleOf(t, p, "data", "file"))
	access := nfs4test.Op{Number: wire.OpAccess, Args: &wire.Access4Args{Access: 0x3f}}
	for _, c := range []struct {
		name string
		ops  []nfs4test.Op
	}{
		{"GETATTR", []nfs4test.Op{file, getattr(linuxAttributes...)}},
		{"ACCESS, GETATTR", []nfs4test.Op{file, access, getattr(linuxAttributes...)}},
		{"LOOKUP, GETFH, GETATTR", []nfs4test.Op{dir, lookup("file"), op(wire.OpGetFH), getattr(linuxAttributes...)}},
		{"LOOKUP of nothing", []nfs4test.Op{dir, lookup("none")}},
		{"the root of an export", []nfs4test.Op{dir, getattr(linuxAttributes...)}},
		{"LOOKUP into an export", append(walk("data"), op(wire.OpGetFH), getattr(linuxAttributes...))},
		{"file systems", []nfs4test.Op{file, getattr(wire.Fattr4SpaceFree, wire.Fattr4Maxname, wire.Fattr4SupportedAttrs)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			call := rpctest.NewCall(p.Conn, nil)
			m := p.Message("", c.ops...)
			xid := binary.BigEndian.Uint32(m)
			again := func() {
				xid++
				binary.BigEndian.PutUint32(m, xid)
				call.Again(p.Conn, m)
				call.Space = p.Room
				if _, ok := p.RPC.Admit(&call.Call); ok {
					p.RPC.Serve(&call.Call)
				}
				<-call.Done
			}
			for range 5000 {
				again()
			}
			if call.Detached {
				t.Fatal("not served in place")
			}
			if n := testing.AllocsPerRun(200, again); n != 0 {
				t.Errorf("%v allocations a call", n)
			}
		})
	}
}

// A listing allocates no more for many entries than for few.
func TestReaddirAllocatesNothingForAnEntry(t *testing.T) {
	s := treeSite(t, "/data")
	fs := s.Exports.All()[0].FS
	p := s.Peer(2)
	var allocs []float64
	for range 2 {
		m := p.Message("", append(at(), readdir(0, 1<<16, linuxAttributes...))...)
		xid := binary.BigEndian.Uint32(m)
		call := rpctest.NewCall(p.Conn, nil)
		again := func() {
			xid++
			binary.BigEndian.PutUint32(m, xid)
			call.Again(p.Conn, m)
			call.Space = p.Room
			if _, ok := p.RPC.Admit(&call.Call); ok {
				p.RPC.Serve(&call.Call)
			}
			<-call.Done
		}
		for range 100 {
			again()
		}
		allocs = append(allocs, testing.AllocsPerRun(100, again))
		for i := range 100 * (2 - len(allocs)) {
			op := vfs.Op{Cred: &vfs.Cred{}}
			if _, _, err := fs.Mknod(&op, fs.Root(), fmt.Appendf(nil, "entry%d", i), vfs.FIFO, &vfs.SetAttr{}, 0, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	if allocs[1] > allocs[0] {
		t.Errorf("%v allocations for a few entries, %v for a hundred more", allocs[0], allocs[1])
	}
}
