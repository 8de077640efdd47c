package nfs4wire

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr/xdrtest"
)

// allocates are the operations in which there is an array with a bound of more than
// one: callback_sec_parms4 has the groups of AUTH_SYS.
var allocates = map[OpNum]bool{OpBackchannelCtl: true, OpCreateSession: true}

// Nothing allocates when it is encoded or decoded, but for AUTH_SYS in the two
// operations that name flavours of callbacks.
func TestNoAllocation(t *testing.T) {
	for _, o := range operations {
		if !allocates[o.op] {
			noAllocation(t, o.args)
		}
		noAllocation(t, o.res)
	}
	for _, o := range callbacks {
		noAllocation(t, o.args)
		noAllocation(t, o.res)
	}
}

func noAllocation(t *testing.T, fresh func() xdrtest.Value) {
	if fresh == nil {
		return
	}
	for seed := range 10 {
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
