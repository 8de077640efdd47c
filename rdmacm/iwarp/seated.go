package iwarp

import "github.com/nfsrdmad/nfsrdmad/internal/census"

// seated is the Conn that has a seat, until a ULP holds it.
type seated Conn

// End implements census.Holder.
func (c *seated) End(why census.Reason) { (*Conn)(c).Abort(why) }

// Busy implements census.Holder: what the ULP does is not known here.
func (c *seated) Busy() bool { return false }
