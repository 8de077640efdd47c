package nfs3wire

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr/xdrtest"
)

// Nothing in NFSv3 allocates when it is encoded or decoded.
func TestNoAllocation(t *testing.T) {
	for _, p := range procedures {
		for _, fresh := range []func() xdrtest.Value{p.args, p.res} {
			for seed := range 20 {
				v := xdrtest.Example(fresh, seed)
				w := xdr.NewWriter(make([]byte, 0, 4096))
				v.Encode(w)
				stream := xdrtest.Stream(w)
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
	}
}
