package client

import (
	"bytes"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// nfs3Message is a call of NFS version 3.
func nfs3Message(p nfs3wire.Procedure, args func(w *xdr.Writer)) []byte {
	return rpctest.CallMessage(rpc.CallHeader{XID: 1, Program: nfs3wire.Program, Version: nfs3wire.Version, Procedure: uint32(p)}, args)
}

// stream is what a writer stands for.
func stream(w *xdr.Writer) []byte {
	var b []byte
	at := 0
	for _, p := range w.Payloads() {
		b = append(append(append(b, w.Bytes()[at:p.Position]...), p.Data...), make([]byte, xdr.Pad(len(p.Data)))...)
		at = p.Position
	}
	return append(b, w.Bytes()[at:]...)
}

// Whatever a client sends: what a call may need is bounded, and what goes on to
// the server are the client's own arguments, to the byte but for padding and for
// READs of more than is relayed at once.
func FuzzRelayedCall(f *testing.F) {
	for _, m := range [][]byte{
		nfs3Message(nfs3wire.ProcNull, nil),
		nfs3Message(nfs3wire.ProcWrite, func(w *xdr.Writer) {
			(&nfs3wire.Write3Args{FileHandle: nfs3wire.FileHandle3{Data: []byte("handle")}, Count: 5, Data: xdr.Eligible{Data: []byte("bytes")}}).Encode(w)
		}),
		nfs3Message(nfs3wire.ProcSymlink, func(w *xdr.Writer) {
			(&nfs3wire.Symlink3Args{Symlink: nfs3wire.SymlinkData3{SymlinkData: xdr.Eligible{Data: []byte("text")}}}).Encode(w)
		}),
		nfs3Message(nfs3wire.ProcRead, func(w *xdr.Writer) { (&nfs3wire.Read3Args{Count: 1 << 20}).Encode(w) }),
		nfs3Message(nfs3wire.ProcRead, func(w *xdr.Writer) { (&nfs3wire.Read3Args{Count: 1<<32 - 1}).Encode(w) }),
		nfs3Message(nfs3wire.ProcReaddirPlus, func(w *xdr.Writer) { (&nfs3wire.ReaddirPlus3Args{MaxCount: 1<<32 - 1}).Encode(w) }),
		rpctest.CallMessage(rpc.CallHeader{Program: 100000, Version: 2, Procedure: 3}, func(w *xdr.Writer) { w.Reserve(16) }),
		rpctest.CallMessage(rpc.CallHeader{Program: 100000, Version: 4, Procedure: 3}, func(w *xdr.Writer) { w.Reserve(20) }),
		rpctest.CallMessage(rpc.CallHeader{Program: 100005, Version: 3, Procedure: 1}, func(w *xdr.Writer) { w.String("/x") }),
	} {
		f.Add(m)
	}
	relay := NewRelay(RelayConfig{})
	f.Fuzz(func(t *testing.T, m []byte) {
		k := &relayCall{conn: &relayConn{relay: relay}, in: m}
		if n := k.foresee(m); n < 0 || n > max(relay.cfg.MaxReply, nfs.MaxDirectory+4096, nfs.MaxTransfer+4096) {
			t.Fatalf("a reply of %d bytes", n)
		}
		d, why, version, err := k.parse(m)
		if err != nil || why != rpc.AuthOK || version != rpc.Version || k.head.Program == rpcbindProgram {
			return
		}
		k.args = m[k.head.Size:]
		k.x.Args, k.x.MaxArgs = k.putArgs, len(k.args)+xdr.Pad(len(k.args))
		k.shape(d)
		if cap(k.room) > nfs.MaxTransfer {
			t.Fatalf("%d bytes for a READ", cap(k.room))
		}
		w := xdr.NewWriter(make([]byte, 0, k.x.MaxArgs))
		k.x.Args(w)
		if w.Overflow() {
			t.Fatalf("the arguments exceed %d bytes", k.x.MaxArgs)
		}
		got := stream(w)
		if len(k.x.Sinks) > 0 && len(k.sink[0]) == nfs.MaxTransfer {
			return // perhaps less than was asked for
		}
		want := append(bytes.Clone(k.args), make([]byte, xdr.Pad(len(k.args)))...)
		if len(got) != len(want) || !bytes.Equal(got, want) && !padded(k.head.Procedure) {
			t.Fatalf("arguments\n%x\nbecame\n%x", want, got)
		}
	})
}

// padded says that a call has items whose padding is made anew.
func padded(procedure uint32) bool {
	p := nfs3wire.Procedure(procedure)
	return p == nfs3wire.ProcWrite || p == nfs3wire.ProcSymlink || p == nfs3wire.ProcRead
}

// The place of a READ's data lies within the results, wherever they are cut off.
func FuzzLocateReadData(f *testing.F) {
	w := xdr.NewWriter(make([]byte, 0, 256))
	(&nfs3wire.Read3Res{ResOK: nfs3wire.Read3ResOK{
		FileAttributes: nfs3wire.PostOpAttr{AttributesFollow: true, Attributes: nfs3wire.Fattr3{Type: nfs3wire.NF3Reg}},
		Count:          4, Data: xdr.Eligible{Data: []byte("data")},
	}}).Encode(w)
	f.Add(stream(w))
	f.Add(stream(w)[:40])
	f.Fuzz(func(t *testing.T, b []byte) {
		var d xdr.Decoder
		d.Reset(b, 24, nil)
		at, n := LocateReadData(d)
		if n == 0 {
			return
		}
		if at < 24 || at-24 > len(b) || n < 0 {
			t.Fatalf("data at %d, %d bytes, of %d", at, n, len(b))
		}
		var res nfs3wire.Read3Res
		if res.Decode(&d); d.Err() == nil && (len(res.ResOK.Data.Data) != n || d.Position() != at+n+xdr.Pad(n)) {
			t.Fatalf("data of %d bytes at %d; decoded %d up to %d", n, at, len(res.ResOK.Data.Data), d.Position())
		}
	})
}
