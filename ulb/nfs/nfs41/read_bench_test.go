package nfs41

import (
	"encoding/binary"
	"os"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// BenchmarkRead serves a READ of 4 KiB from a file in the page cache, from the first byte
// of the call to the last byte of the reply, without a transport. It measures NFSv3, and
// minor version 1 with the operations that a client sends around the READ.
func BenchmarkRead(b *testing.B) {
	dir, err := os.MkdirTemp("/dev/shm", "nfs41")
	if err != nil {
		b.Skip(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	fs, err := local.New(local.Config{Root: dir, StateDir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { fs.Close() })
	s := nfs4test.New(b, nfs4test.Config{FS: fs, Minors: func(sm *state.Manager) [3]nfs4.Minor {
		m := New(Config{State: sm, Owner: []byte("owner"), Scope: []byte("scope")})
		return [3]nfs4.Minor{nil, m, m}
	}})
	s.RPC.Register(nfs3.New(s.Exports))
	c := newClientSession(s.Peer(1), "client")
	want(b, "RECLAIM_COMPLETE", c.run(op(wire.OpReclaimComplete, &wire.ReclaimComplete4Args{})), wire.NFS4OK, 2)
	opened := c.run(putExport(c), op(wire.OpOpen, &wire.Open4Args{
		ShareAccess: wire.Open4ShareAccessBoth, Owner: wire.StateOwner4{Clientid: c.client, Owner: []byte("me")},
		Openhow: wire.Openflag4{Opentype: wire.Open4Create}, Claim: wire.OpenClaim4{Claim: wire.ClaimNull, File: []byte("file")},
	}), op(wire.OpGetFH))
	want(b, "OPEN", opened, wire.NFS4OK, 4)
	var o wire.Open4Res
	var fh wire.GetFH4Res
	opened.Ops[2].Into(b, &o)
	opened.Ops[3].Into(b, &fh)
	put := op(wire.OpPutFH, &wire.PutFH4Args{Object: fh.ResOK.Object})
	want(b, "WRITE", c.run(put, op(wire.OpWrite, &wire.Write4Args{
		Stateid: o.ResOK.Stateid, Stable: wire.FileSync4, Data: xdr.Eligible{Data: make([]byte, 4096)},
	})), wire.NFS4OK, 3)

	read := op(wire.OpRead, &wire.Read4Args{Stateid: o.ResOK.Stateid, Count: 4096})
	stat := op(wire.OpGetattr, &wire.Getattr4Args{AttrRequest: wire.Bits(
		wire.Fattr4Type, wire.Fattr4Change, wire.Fattr4Size, wire.Fattr4FSID, wire.Fattr4FileID, wire.Fattr4Mode,
		wire.Fattr4Numlinks, wire.Fattr4SpaceUsed, wire.Fattr4TimeAccess, wire.Fattr4TimeMetadata, wire.Fattr4TimeModify,
	)})
	b.Run("NFSv3 READ", func(b *testing.B) {
		cred, err := rpc.AuthSysCred(0, "client", 0, 0, nil)
		if err != nil {
			b.Fatal(err)
		}
		h := rpc.CallHeader{Program: nfs3wire.Program, Version: nfs3wire.Version, Procedure: uint32(nfs3wire.ProcRead), Cred: cred}
		repeat(b, c, rpctest.CallMessage(h, func(w *xdr.Writer) {
			(&nfs3wire.Read3Args{FileHandle: nfs3wire.FileHandle3{Data: fh.ResOK.Object}, Count: 4096}).Encode(w)
		}), 0)
	})
	for _, of := range []struct {
		name string
		ops  []nfs4test.Op
	}{
		{"SEQUENCE", nil},
		{"SEQUENCE, PUTFH", []nfs4test.Op{put}},
		{"SEQUENCE, PUTFH, GETATTR", []nfs4test.Op{put, stat}},
		{"SEQUENCE, PUTFH, READ", []nfs4test.Op{put, read}},
		{"SEQUENCE, PUTFH, READ, GETATTR", []nfs4test.Op{put, read, stat}},
	} {
		b.Run(of.name, func(b *testing.B) {
			first := c.sequenceOp(1)
			first.Cachethis = false
			second := *first
			second.Sequenceid ^= 1 << 24
			m := c.Message("", append([]nfs4test.Op{op(wire.OpSequence, first)}, of.ops...)...)
			other := c.Message("", append([]nfs4test.Op{op(wire.OpSequence, &second)}, of.ops...)...)
			at := 4
			for m[at] == other[at] {
				at++
			}
			c.seq[1] += repeat(b, c, m, at)
		})
	}
}

// repeat makes the same call again and again. sequence, if not 0, is the offset of the call's
// SEQUENCE number, which repeat increments.
func repeat(b *testing.B, c *session, m []byte, sequence int) (n uint32) {
	call := rpctest.NewCall(c.Conn, nil)
	call.Space = c.Room
	again := func() {
		n++
		binary.BigEndian.PutUint32(m, binary.BigEndian.Uint32(m)+1)
		call.Again(c.Conn, m)
		c.Serve(call)
		if sequence > 0 {
			binary.BigEndian.PutUint32(m[sequence:], binary.BigEndian.Uint32(m[sequence:])+1)
		}
	}
	again()
	if d, err := call.Results(); err != nil || d.Uint32() != 0 {
		b.Fatal("the call failed: ", err)
	}
	b.ReportAllocs()
	for b.Loop() {
		again()
	}
	return n
}
