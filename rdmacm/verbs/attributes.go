package verbs

import (
	"fmt"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/device"
)

// anyMessage is the size that a request may have if the device does not say so, in bytes. Every device
// carries it.
const anyMessage = 1 << 20

// judge corrects attributes that a driver leaves at 0, and refuses a device that cannot carry what the
// provider promises. Behind judge, each request of a connection moves at least one byte.
func judge(a *device.Attributes) error {
	// Some drivers state 0 for SGEs of a Read, because they take it for the number of SGEs of the reliable
	// datagram service. Each device that has RDMA Reads takes one.
	a.ReadSGEs = max(a.ReadSGEs, 1)
	if a.MaxMessage <= 0 { // as in mana_ib until 2026
		a.MaxMessage = anyMessage
	}
	for _, need := range []struct {
		what       string
		has, least int
	}{
		{"pieces in a request (max_sge)", a.SGEs, 1},
		{"requests in a queue (max_qp_wr)", a.QPWorks, 2},
		{"completions in a queue (max_cqe)", a.CQEntries, 2},
		{"bytes in a message (max_msg_sz)", a.MaxMessage, maxSend},
	} {
		if need.has < need.least {
			return fmt.Errorf("verbs: RDMA device %s takes %d %s, and %d are needed: use another device, or --rdma-provider iwarp",
				a.Name, need.has, need.what, need.least)
		}
	}
	a.ReadsServed, a.ReadsOutstanding = max(a.ReadsServed, 0), max(a.ReadsOutstanding, 0)
	return nil
}
