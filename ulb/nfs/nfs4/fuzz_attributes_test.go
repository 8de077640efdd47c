package nfs4_test

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// FuzzAttributes sets and verifies any values, and creates objects with them. A successful
// SETATTR sets exactly the requested attributes. If VERIFY finds the values equal, NVERIFY
// does, too.
func FuzzAttributes(f *testing.F) {
	for _, w := range allAttributes {
		f.Add(uint32(2), wordOf(w.number, 0), wordOf(w.number, 1), wordOf(w.number, 2), make([]byte, max(w.size, 0)))
	}
	f.Add(uint32(0), uint32(1<<4), uint32(1<<1), uint32(0), []byte{0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 1, 0xa4})
	f.Add(uint32(1), uint32(0), uint32(1<<4), uint32(0), []byte("\x00\x00\x00\x040000"))
	f.Fuzz(func(t *testing.T, minor, w0, w1, w2 uint32, values []byte) {
		p := treeSite(t, "/data").Peer(minor % 3)
		args := raw(func(w *xdr.Writer) {
			w.Uint32(3)
			w.Uint32(w0)
			w.Uint32(w1)
			w.Uint32(w2)
			w.Opaque(values)
		})
		last := func(r *nfs4test.Result) *nfs4test.OpResult { return &r.Ops[len(r.Ops)-1] }
		set := last(p.Compound(append(at("file"), nfs4test.Op{Number: wire.OpSetattr, Args: raw(func(w *xdr.Writer) {
			w.FixedOpaque(make([]byte, wire.StateID4MaxSize))
			args(w)
		})})...))
		var res wire.Setattr4Res
		set.Into(t, &res)
		birth := wire.Bits(wire.Fattr4TimeCreate) // accepted, but not set
		if got := res.Attrsset; set.Status == wire.NFS4OK && (got.Word(0) != w0 || got.Word(1) != w1&^birth.Word(1) || got.Word(2) != w2) ||
			set.Status != wire.NFS4OK && !got.IsEmpty() {
			t.Errorf("%v: %v set", set.Status, got)
		}
		is := last(p.Compound(append(at("file"), nfs4test.Op{Number: wire.OpVerify, Args: args})...)).Status
		not := last(p.Compound(append(at("file"), nfs4test.Op{Number: wire.OpNverify, Args: args})...)).Status
		if is == wire.NFS4ErrNotSame {
			is = wire.NFS4ErrSame
		}
		if is == not == (is == wire.NFS4OK || is == wire.NFS4ErrSame) {
			t.Errorf("VERIFY %v, NVERIFY %v", is, not)
		}
		made := last(p.Compound(append(at(), nfs4test.Op{Number: wire.OpCreate, Args: raw(func(w *xdr.Writer) {
			w.Uint32(uint32(wire.NF4Fifo))
			w.String("made")
			args(w)
		})})...))
		if made.Status == wire.NFS4OK {
			p.Compound(append(at(), remove("made"))...)
		}
	})
}

// wordOf returns word i of the bitmap that holds only attribute n.
func wordOf(n uint32, i int) uint32 {
	b := wire.Bits(n)
	return b.Word(i)
}
