package nfs4wire

import (
	"reflect"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr/xdrtest"
)

// decoders returns constructors of the types of all operations, arguments before results,
// callbacks last.
func decoders() (all []func() xdrtest.Value) {
	for _, o := range operations {
		all = append(all, o.args, o.res)
	}
	for _, o := range callbacks {
		all = append(all, o.args, o.res)
	}
	all = append(all, fresh[ModeUmask4], fresh[OpenArguments4], fresh[FsLocations4])
	for i, f := range all {
		if f == nil {
			all[i] = fresh[NFSStat4]
		}
	}
	return all
}

// If bytes decode as an operation's arguments or results, the value is encoded to no more
// bytes, and these decode to the same value. The content of padding is lost. So are words of
// bitmaps that are zero or too many to store.
func FuzzOperations(f *testing.F) {
	all := decoders()
	for i, fresh := range all {
		for seed := range 3 {
			w := xdr.NewWriter(make([]byte, 0, 4096))
			xdrtest.Example(fresh, seed).Encode(w)
			f.Add(uint8(i), xdrtest.Stream(w))
		}
	}
	number := map[reflect.Type]int{}
	for i, fresh := range all {
		number[reflect.TypeOf(fresh())] = i
	}
	for _, c := range captures(f) {
		d := xdr.NewDecoder(c.stream)
		if err := c.walk(d, func(op int32) {
			if fresh, _, _ := c.types(op); fresh != nil {
				v, from := fresh(), d.Position()
				v.Decode(d)
				f.Add(uint8(number[reflect.TypeOf(v)]), c.stream[from:d.Position()])
			}
		}); err != nil {
			f.Fatal(err)
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, stream []byte) {
		fresh := all[int(which)%len(all)]
		v, again := fresh(), fresh()
		d := xdr.NewDecoder(stream)
		v.Decode(d)
		if d.Finish() != nil {
			return
		}
		w := xdr.NewWriter(make([]byte, 0, len(stream)))
		v.Encode(w)
		encoded := xdrtest.Stream(w)
		if w.Overflow() || len(encoded) > len(stream) {
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

// FuzzCompound decodes whole compounds operation by operation. Captured compounds are its
// seeds. The decoder must not panic or read beyond the end.
func FuzzCompound(f *testing.F) {
	for _, c := range captures(f) {
		f.Add(c.stream, c.reply, c.callback)
	}
	f.Fuzz(func(t *testing.T, stream []byte, reply, callback bool) {
		c := captured{minor: "4.1", stream: stream, reply: reply, callback: callback}
		d := xdr.NewDecoder(stream)
		_ = c.walk(d, func(op int32) {
			if fresh, _, _ := c.types(op); fresh != nil {
				fresh().Decode(d)
			}
		})
		if d.Position() > len(stream) {
			t.Fatalf("read %d bytes of %d", d.Position(), len(stream))
		}
	})
}
