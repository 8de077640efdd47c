package nfs3wire

import (
	"reflect"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr/xdrtest"
)

// If bytes decode as arguments or results of a procedure, the value is encoded to as many
// bytes, and these decode to the same value. Only the content of padding may differ.
func FuzzProcedures(f *testing.F) {
	for i, p := range procedures {
		for seed := range 3 {
			for res, fresh := range []func() xdrtest.Value{p.args, p.res} {
				w := xdr.NewWriter(make([]byte, 0, 4096))
				xdrtest.Example(fresh, seed).Encode(w)
				f.Add(uint8(i), res == 1, xdrtest.Stream(w))
			}
		}
	}
	for _, c := range captures(f) {
		f.Add(uint8(c.procedure), c.res, c.stream)
	}
	f.Fuzz(func(t *testing.T, proc uint8, res bool, stream []byte) {
		p := procedures[int(proc)%len(procedures)]
		fresh := p.args
		if res {
			fresh = p.res
		}
		v, again := fresh(), fresh()
		d := xdr.NewDecoder(stream)
		v.Decode(d)
		if d.Finish() != nil {
			return
		}
		w := xdr.NewWriter(make([]byte, 0, len(stream)))
		v.Encode(w)
		encoded := xdrtest.Stream(w)
		if w.Overflow() || len(encoded) != len(stream) {
			t.Fatalf("%T: %x\nencoded as %x", v, stream, encoded)
		}
		d = xdr.NewDecoder(encoded)
		again.Decode(d)
		if err := d.Finish(); err != nil {
			t.Fatalf("%T: %x\nencoded as %x: %v", v, stream, encoded, err)
		}
		if !reflect.DeepEqual(xdrtest.Leaves(v), xdrtest.Leaves(again)) {
			t.Fatalf("%T: %x\nencoded as %x", v, stream, encoded)
		}
	})
}
