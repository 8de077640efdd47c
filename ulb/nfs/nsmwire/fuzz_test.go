package nsmwire

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr/xdrtest"
)

var types = []func() xdrtest.Value{
	func() xdrtest.Value { return new(Name) },
	func() xdrtest.Value { return new(StatRes) },
	func() xdrtest.Value { return new(Status) },
}

// The numbers are those of X/Open C702 §11, and a NOTIFY is a name and a number.
func TestNumbers(t *testing.T) {
	if Program != 100024 || Version != 1 || ProcStat != 1 || ProcNotify != 6 {
		t.Error(Program, Version, ProcStat, ProcNotify)
	}
	w := xdr.NewWriter(make([]byte, 0, 64))
	(&Status{Name: []byte("abc"), State: 7}).Encode(w)
	if got := string(w.Bytes()); got != "\x00\x00\x00\x03abc\x00\x00\x00\x00\x07" {
		t.Errorf("%q", got)
	}
}

// If bytes decode, the value is encoded to as many bytes.
func FuzzTypes(f *testing.F) {
	for i, fresh := range types {
		for seed := range 3 {
			w := xdr.NewWriter(make([]byte, 0, 4096))
			xdrtest.Example(fresh, seed).Encode(w)
			f.Add(uint8(i), xdrtest.Stream(w))
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, stream []byte) {
		v := types[int(which)%len(types)]()
		d := xdr.NewDecoder(stream)
		v.Decode(d)
		if d.Finish() != nil {
			return
		}
		w := xdr.NewWriter(make([]byte, 0, len(stream)))
		v.Encode(w)
		if w.Overflow() || w.Len() != len(stream) {
			t.Fatalf("%T: %x\nencoded as %x", v, stream, w.Bytes())
		}
	})
}
