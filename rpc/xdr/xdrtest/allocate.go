package xdrtest

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// CheckAllocations checks that twenty random values of a type are encoded and decoded without an
// allocation. The function fresh returns a new zero value of that type.
func CheckAllocations(t *testing.T, fresh func() Value) {
	t.Helper()
	for seed := range 20 {
		v := Example(fresh, seed)
		w := xdr.NewWriter(make([]byte, 0, 4096))
		v.Encode(w)
		stream := Stream(w)
		var d xdr.Decoder
		buf := make([]byte, 0, 4096)
		if n := testing.AllocsPerRun(10, func() {
			w.Reset(buf)
			v.Encode(w)
			d.Reset(stream, 0, nil)
			v.Decode(&d)
		}); n != 0 {
			t.Errorf("%T allocates %v times: %+v", v, n, v)
		}
		if err := d.Finish(); err != nil {
			t.Errorf("%T: %v", v, err)
		}
	}
}
