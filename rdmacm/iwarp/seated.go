package iwarp

import "github.com/nfsrdmad/nfsrdmad/internal/census"

// seated is a Conn as the holder of its seat, until a ULP holds the seat.
type seated Conn

// End implements census.Holder.
func (c *seated) End(why census.Reason) { (*Conn)(c).Abort(why) }

// Busy implements census.Holder. The provider does not know whether the ULP is busy.
func (c *seated) Busy() bool { return false }
