package rdma

// credits2 is the account of the credits of a connection of version 2 (§4.2.1), for both directions. A credit
// is the permission to send one message, of whatever type. All fields but kept, calls and window count from the
// start of the connection, modulo 2^32.
//
// This side may send while sent < limit. The peer may send while the messages that have come from it, received,
// are fewer than said, the last limit that it was told. The next message tells it may. Limits never fall: each
// message of the peer is made good when it is dealt with. A part, or a message that gets no answer, is made good at
// once (may), and so is the answer to a call of this side, when that call is sent. A call is made good with its
// answer. While its client occupies too much memory, that permission, and those for parts of calls, are kept back
// (kept), but not so many that the peer could not have mem.LeastCalls calls under way. The answers to calls of
// this side need none of these. The draft says that the sender of a limit adds the messages that it has sent. For
// unequal traffic that cannot work, so this side adds to those that it has received.
type credits2 struct {
	sent, limit         uint32
	received, may, said uint32
	kept                uint32
	// calls is how many calls of this side have no answer yet.
	calls uint32
	// window is for how many messages this side is ready while it owes nothing to the peer.
	window uint32
}

// free returns how many messages this side may send now. It is negative after a message that used the reserve.
func (c *credits2) free() int32 { return int32(c.limit - c.sent) }

// left returns how many messages the peer may send, by what it was told.
func (c *credits2) left() int32 { return int32(c.said - c.received) }

// release gives back what was kept, except withheld messages. The peer is told with the next message.
func (c *credits2) release(withheld uint32) {
	if c.kept > withheld {
		c.may += c.kept - withheld
		c.kept = withheld
	}
}

// raises reports whether the next message raises the limit of the peer.
func (c *credits2) raises() bool { return c.may != c.said }

// starved reports whether the peer may send nothing by what it was told, and the next message would change
// that. After a grant of the peer only this makes a grant necessary: otherwise two peers with few credits could
// answer grants with grants.
func (c *credits2) starved() bool { return c.left() <= 0 && int32(c.may-c.received) > 0 }

// owes reports whether the peer needs an RDMA2_GRANT (§4.2.1.1), unless another message is sent at once: it
// is starved, or the next message would tell it of half the window.
func (c *credits2) owes() bool {
	return c.starved() || int32(c.may-c.said) >= int32(max(1, c.window/2))
}

// bothUsed reports whether neither end may send a message, and the peer has used its reserve. If something waits
// here, the peer needs a grant to be able to grant more itself.
func (c *credits2) bothUsed() bool { return c.free() <= 0 && c.left() < 0 }

// take counts a message of the peer. The result is by how many messages the peer exceeds what it may send.
func (c *credits2) take() int32 {
	c.received++
	return int32(c.received - c.said)
}

// post counts a message that is sent now, with permits permissions, and returns its limit. The permissions of an
// answer are kept if there are withheld ones.
func (c *credits2) post(r role, permits int, withheld uint32) (limit uint32) {
	switch r {
	case roleAnswer:
		c.kept += uint32(permits)
	case roleCall:
		c.calls += uint32(permits) // parts before the last permit nothing
		c.may += uint32(permits)
	default:
		c.may += uint32(permits)
	}
	c.release(withheld)
	c.sent++
	c.said = c.may
	return c.said
}

// answered counts a message that ends a call of this side.
func (c *credits2) answered() {
	if c.calls > 0 {
		c.calls--
	}
}

// mayBegin reports whether the first of n messages may be sent that belong together (§6.6.2). While answers are
// still to come, which permit more, it waits until there are credits for all of them. Otherwise nothing might
// permit more before the peer sees the first ones. Each of those is made good when it arrives.
func (c *credits2) mayBegin(n int) bool {
	free := c.free()
	return free >= int32(n) || free > 0 && c.calls == 0
}

// mayContinue reports whether the next part of a message may be sent whose first part was sent. It may use the
// reserve, one message beyond the limit, if it raises the limit of the peer (§4.2.1.1).
func (c *credits2) mayContinue() bool { return c.free() > 0 || c.mayGrant() }

// mayGrant reports whether an RDMA2_GRANT may be sent. It may use the reserve.
func (c *credits2) mayGrant() bool { return c.free() >= 0 && c.raises() }

// role says what a message means for credits.
type role uint8

const (
	roleOther  role = iota
	roleCall        // a call of this side
	roleAnswer      // an answer to a call of the peer
)
