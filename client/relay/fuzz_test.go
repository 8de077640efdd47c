package relay

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/mount3wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// stream returns the XDR stream of a writer.
func stream(w *xdr.Writer) []byte {
	var b []byte
	at := 0
	for _, p := range w.Payloads() {
		b = append(append(append(b, w.Bytes()[at:p.Position]...), p.Data...), make([]byte, xdr.Pad(len(p.Data)))...)
		at = p.Position
	}
	return append(b, w.Bytes()[at:]...)
}

// Whatever bytes a client sends, the memory of a call is bounded, and the server gets exactly the
// client's arguments. The exceptions are padding, and the count of READs above the relay's limit.
func FuzzRelayedCall(f *testing.F) {
	encoded := func(encode func(w *xdr.Writer)) []byte {
		w := xdr.NewWriter(make([]byte, 0, 4096))
		encode(w)
		return stream(w)
	}
	nfs3 := func(p nfs3wire.Procedure, encode func(w *xdr.Writer)) {
		f.Add(uint32(nfs3wire.Program), uint32(nfs3wire.Version), uint32(p), encoded(encode))
	}
	nfs3(nfs3wire.ProcNull, func(*xdr.Writer) {})
	nfs3(nfs3wire.ProcWrite, (&nfs3wire.Write3Args{
		FileHandle: nfs3wire.FileHandle3{Data: []byte("handle")}, Count: 5, Data: xdr.Eligible{Data: []byte("bytes")},
	}).Encode)
	nfs3(nfs3wire.ProcSymlink, (&nfs3wire.Symlink3Args{Symlink: nfs3wire.SymlinkData3{SymlinkData: xdr.Eligible{Data: []byte("text")}}}).Encode)
	nfs3(nfs3wire.ProcRead, (&nfs3wire.Read3Args{Count: 1 << 20}).Encode)
	nfs3(nfs3wire.ProcRead, (&nfs3wire.Read3Args{Count: 1<<32 - 1}).Encode)
	nfs3(nfs3wire.ProcReadlink, (&nfs3wire.Readlink3Args{}).Encode)
	nfs3(nfs3wire.ProcReaddirPlus, (&nfs3wire.ReaddirPlus3Args{MaxCount: 1<<32 - 1}).Encode)
	f.Add(uint32(nfs3wire.Program), uint32(4), uint32(1), []byte("a compound"))
	f.Add(uint32(mount3wire.Program), uint32(mount3wire.Version), uint32(1), encoded(func(w *xdr.Writer) { w.String("/x") }))
	f.Add(uint32(mount3wire.Program), uint32(1), uint32(0), []byte(nil))

	const maxReply = 2 << 20
	rows := newRows(maxReply)
	pool, err := mem.NewPool(mem.Config{Ceiling: 8 << 20})
	if err != nil {
		f.Fatal(err)
	}
	share := pool.NewShare()
	f.Cleanup(func() {
		share.Close()
		pool.Close()
	})
	f.Fuzz(func(t *testing.T, program, version, procedure uint32, args []byte) {
		row := rows.of(program, version, procedure)
		var d xdr.Decoder
		d.Reset(args, 0, nil)
		shape, _ := row.Shape(d, nil)
		if n := shape.Words + shape.Payload; n < 0 || n > maxReply {
			t.Fatalf("a reply of %d bytes", n)
		}
		if shape.Once && program == nfs3wire.Program && version == 4 {
			t.Fatal("a reply of NFSv4 is to be remembered")
		}
		var c rpc.Call
		c.Header = rpc.CallHeader{Program: program, Version: version, Procedure: procedure}
		c.Args = d
		if shape.Payload > 0 {
			c.Memory, _ = share.TryGet(shape.Payload)
			defer c.Memory.Release()
		}
		k := newForward(&c, row)
		if k == nil {
			t.Fatalf("no memory for the results, of %d bytes planned", shape.Payload)
		}
		w := xdr.NewWriter(make([]byte, 0, k.x.MaxArgs))
		k.x.Args(w)
		if w.Overflow() {
			t.Fatalf("the arguments exceed %d bytes", k.x.MaxArgs)
		}
		got := stream(w)
		want := append(bytes.Clone(args), make([]byte, xdr.Pad(len(args)))...)
		if n := len(k.sink); n == nfs.MaxTransfer {
			binary.BigEndian.PutUint32(want[len(want)-4:], uint32(n)) // perhaps less than the client asked for
		}
		if len(got) != len(want) || !bytes.Equal(got, want) && len(k.item) == 0 {
			t.Fatalf("arguments\n%x\nbecame\n%x", want, got)
		}
	})
}
