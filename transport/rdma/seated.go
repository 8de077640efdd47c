package rdma

// seated is a connection in its role as an rdmacm.Holder: the census of connections may end it (see
// rdmacm.Seat).
type seated connection

// End implements rdmacm.Holder.
func (k *seated) End(why error) { k.device.Abort(why) }

// Busy implements rdmacm.Holder: it reports whether a call is under way. The RDMA Reads and
// the reply that such a call waits for have deadlines of their own.
func (k *seated) Busy() bool { return k.calls.Load()&^drainBit > 0 }
