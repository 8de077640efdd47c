package rdma

// credits counts the credits of a requester in one direction of a connection (RFC 8166
// §3.3.1). Its owner's lock guards it.
type credits struct {
	// requested is sent with every call.
	requested uint32
	// granted is the last grant: 1 until the first reply (RFC 8166 §3.3.3).
	granted uint32
	// inFlight is the number of unanswered calls, cancelled ones included.
	inFlight uint32
}

func newCredits(requested int) credits {
	return credits{requested: uint32(requested), granted: 1}
}

// may reports whether another call may be sent. A grant of 0 counts as 1, because some
// peers that predate RFC 8166 send it: no call goes while another is in flight, whose
// answer may bring a grant; when none is in flight, one call goes.
func (c *credits) may() bool {
	return c.inFlight < max(1, min(c.requested, c.granted))
}

// answered applies the grant of an answer. An RDMA_ERROR with a grant of 0 does not change
// it.
func (c *credits) answered(granted uint32, isError bool) {
	c.inFlight--
	if granted > 0 || !isError {
		c.granted = granted
	}
}
