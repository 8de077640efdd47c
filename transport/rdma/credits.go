package rdma

// credits is a requester's account of one direction of a connection (RFC 8166
// §3.3.1). Its owner's lock guards it.
type credits struct {
	// requested goes with every call.
	requested uint32
	// granted is the last grant: 1 until a reply says more (RFC 8166 §3.3.3).
	granted uint32
	// inFlight is how many calls are not answered, cancelled ones included.
	inFlight uint32
}

func newCredits(requested int) credits {
	return credits{requested: uint32(requested), granted: 1}
}

// may says whether another call may go. A grant of 0, one of peers from before
// RFC 8166, counts as 1: while something is in flight that may bring another it
// holds everything up all the same, and when nothing is, one call goes.
func (c *credits) may() bool {
	return c.inFlight < max(1, min(c.requested, c.granted))
}

// answered takes the grant that came with an answer. An RDMA_ERROR that grants
// nothing changes nothing.
func (c *credits) answered(granted uint32, isError bool) {
	c.inFlight--
	if granted > 0 || !isError {
		c.granted = granted
	}
}
