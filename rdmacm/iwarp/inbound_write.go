package iwarp

import (
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
)

// judgeWrite checks a segment of an RDMA Write (RFC 5041 §7.1). A segment without payload
// passes unchecked.
func (x *receiver) judgeWrite() {
	f := &x.fpdu
	if f.left == 0 {
		return
	}
	r := x.region(f.tagged.STag)
	if cause := x.regions.reach(r, f.tagged.Offset, f.left, rdmacm.RemoteWrite, &writeCauses); cause != none {
		f.wrong(cause, nil)
		return
	}
	f.region, f.target = r, toRegion
}
