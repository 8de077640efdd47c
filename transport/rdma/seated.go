package rdma

import "github.com/nfsrdmad/nfsrdmad/internal/census"

// seated is the connection that has a seat.
type seated connection

// End implements census.Holder.
func (k *seated) End(why census.Reason) { k.device.Abort(why) }

// Busy implements census.Holder: a call is under way. What its peer owes to it, an
// RDMA Read or room for the reply, has a deadline of its own.
func (k *seated) Busy() bool { return k.calls.Load()&^drainBit > 0 }
