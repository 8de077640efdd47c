package rdma

// credits2 is the account of the credits of a connection of version 2 (§4.2.1), in both directions. A credit is
// the permission to send one message of any type. A limit is how many messages a side may send in all. Each
// message carries the limit for the side that receives it. All fields but kept, calls and window count from the
// start of the connection, modulo 2^32.
//
// sent counts the messages of this side, and limit is the last limit that the peer has told this side. This side may
// send while sent < limit.
//
// received counts the messages of the peer, and said is the last limit that this side has told the peer. The peer may
// send while received < said. may is the limit that the next message of this side tells the peer. It never falls. It
// rises by 1
//
//   - when this side has processed a part, or a message that gets no answer;
//   - when this side sends a call, so that the peer may answer;
//   - when this side sends an answer to a call, so that the peer may call again.
//
// While the calls of the peer's client occupy too much memory, kept rises instead of may for answers to calls of the
// peer, and for parts of its calls. may gets them back later (release). But the peer always has enough credits for
// mem.LeastCalls calls.
//
// A side has a reserve of one message beyond its limit. It may use the reserve to raise the limit of the other side
// (§4.2.1.1).
//
// By the draft, a side adds the credits that it gives to the number of messages that it has sent. That cannot work if
// one side sends more messages than the other. So this side adds them to the number of messages that it has
// received.
type credits2 struct {
	sent, limit         uint32
	received, may, said uint32
	kept                uint32
	// calls is how many calls of this side have no answer yet.
	calls uint32
	// window is how many messages the peer may send when this side has processed and answered all earlier ones.
	window uint32
}

// free returns how many more messages this side may send now. It is negative after this side has used its reserve.
func (c *credits2) free() int32 { return int32(c.limit - c.sent) }

// left returns how many more messages the peer may send before this side tells it another limit. It is negative
// after the peer has used its reserve.
func (c *credits2) left() int32 { return int32(c.said - c.received) }

// release moves credits from kept to may until only the number withheld is kept. The next message of this side tells
// the peer.
func (c *credits2) release(withheld uint32) {
	if c.kept > withheld {
		c.may += c.kept - withheld
		c.kept = withheld
	}
}

// raises reports whether the next message of this side raises the limit of the peer.
func (c *credits2) raises() bool { return c.may != c.said }

// starved reports whether the peer may send nothing now, but could after the next message of this side. Only then
// does this side answer a grant with a grant. Otherwise two peers with few credits could send each other grants
// without an end.
func (c *credits2) starved() bool { return c.left() <= 0 && int32(c.may-c.received) > 0 }

// owes reports whether the peer needs an RDMA2_GRANT (§4.2.1.1), unless this side sends another message at once. It
// does if it is starved, or if the next message raises its limit by half the window or more.
func (c *credits2) owes() bool {
	return c.starved() || int32(c.may-c.said) >= int32(max(1, c.window/2))
}

// bothUsed reports whether neither side may send a message, and the peer has used its reserve. If a message waits on
// this side then, this side has to send a grant, because the peer cannot even send a grant before.
func (c *credits2) bothUsed() bool { return c.free() <= 0 && c.left() < 0 }

// take counts a message of the peer. If the result is positive, it is how many messages the peer has sent beyond its
// limit.
func (c *credits2) take() int32 {
	c.received++
	return int32(c.received - c.said)
}

// post counts a message that this side sends now, and returns the limit that the message tells the peer. The message
// gives the peer permits more credits. Those of an answer are kept, up to the number withheld.
func (c *credits2) post(r role, permits int, withheld uint32) (limit uint32) {
	switch r {
	case roleAnswer:
		c.kept += uint32(permits)
	case roleCall:
		c.calls += uint32(permits) // permits is 0 for the parts before the last one
		c.may += uint32(permits)
	default:
		c.may += uint32(permits)
	}
	c.release(withheld)
	c.sent++
	c.said = c.may
	return c.said
}

// answered counts a message of the peer that ends a call of this side.
func (c *credits2) answered() {
	if c.calls > 0 {
		c.calls--
	}
}

// mayBegin reports whether this side may send the first of the n messages of an RPC message in parts (§6.6.2). While
// the peer has calls to answer, there must be credits for all n messages: the answers bring more credits. Otherwise
// one credit suffices, because perhaps nothing else brings more: the peer gives a credit for each part that it
// receives.
func (c *credits2) mayBegin(n int) bool {
	free := c.free()
	return free >= int32(n) || free > 0 && c.calls == 0
}

// mayContinue reports whether this side may send the next part of a message whose first part it has sent. The part may
// use the reserve if it raises the limit of the peer.
func (c *credits2) mayContinue() bool { return c.free() > 0 || c.mayGrant() }

// mayGrant reports whether this side may send an RDMA2_GRANT. The grant may use the reserve.
func (c *credits2) mayGrant() bool { return c.free() >= 0 && c.raises() }

// role says what a message means for credits.
type role uint8

const (
	roleOther  role = iota
	roleCall        // a call of this side
	roleAnswer      // an answer to a call of the peer
)
