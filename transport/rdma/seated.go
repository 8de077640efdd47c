package rdma

import "github.com/nfsrdmad/nfsrdmad/internal/census"

// seated is a connection as the holder of its seat.
type seated connection

// End implements census.Holder.
func (k *seated) End(why census.Reason) { k.device.Abort(why) }

// Busy implements census.Holder: it reports whether a call is under way. The RDMA Reads and
// the reply that such a call waits for have deadlines of their own.
func (k *seated) Busy() bool { return k.calls.Load()&^drainBit > 0 }
