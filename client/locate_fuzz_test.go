package client

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
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

// LocateReadData returns a place within the results, even if they are cut off anywhere.
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

// LocateRead4Data returns a place within the results, even if they are cut off anywhere.
func FuzzLocateRead4Data(f *testing.F) {
	w := xdr.NewWriter(make([]byte, 0, 256))
	goodSequence(w, &nfs4wire.Sequence4Args{}, 3)
	for _, op := range []nfs4wire.OpNum{nfs4wire.OpPutFH, nfs4wire.OpRead} {
		w.Uint32(uint32(op))
		w.Uint32(0)
	}
	w.Bool(true)
	w.Opaque([]byte("data"))
	var whole xdr.Decoder
	whole.Reset(w.Bytes(), 24, nil)
	if at, n := LocateRead4Data(whole); n != 4 || string(w.Bytes()[at-24:at-20]) != "data" {
		f.Fatalf("%d bytes at %d", n, at)
	}
	f.Add(w.Bytes())
	f.Add(w.Bytes()[:80])
	f.Fuzz(func(t *testing.T, b []byte) {
		var d xdr.Decoder
		d.Reset(b, 24, nil)
		if at, n := LocateRead4Data(d); n != 0 && (at < 24 || at-24 > len(b) || n < 0) {
			t.Fatalf("data at %d, %d bytes, of %d", at, n, len(b))
		}
	})
}
