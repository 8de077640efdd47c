package tcp

import (
	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// admitLargeRecord is called when the start of a record has arrived that is too long for the ring. It
// admits the call, or finds the exchange of the reply, and gets memory for the record. If the call is
// refused or answered at once, or no exchange waits for the reply, the rest of the record will be
// dropped. admitLargeRecord returns false if the connection has ended.
func (c *conn) admitLargeRecord() bool {
	m := c.ring[c.start:c.end]
	known := c.size + c.left
	_, kind, ok := rpc.MessageType(m)
	switch {
	case ok && kind == rpc.TypeReply:
		in := c.caller.admitReply(m, known, c.last)
		if in == nil {
			c.skip = true
			return true
		}
		c.reply, c.place, c.further, c.most = in, in.places[0], in.places[1:], in.most
	case c.rpc == nil:
		c.skip = true
		return true
	default:
		k, plan, ok := c.admit(known)
		if k == nil {
			return false
		}
		if ok && plan.Early {
			c.count.calls.Add(1)
			c.rpc.Serve(&k.Call)
		}
		if !ok || plan.Early {
			c.skip = true
			return true
		}
		size := known
		if !c.last {
			size = min(max(known, k.Header.Size+plan.Args), c.cfg.MaxRecord)
		}
		at := (size + 7) &^ 7
		words, more := planned(&plan)
		b, ok := c.share.TryGetIn(plan.Group, at+more)
		if !ok {
			var err error
			k.AwaitsMemory()
			c.step(func() { b, err = c.reserve(at+more, plan.Group) })
			k.Leaves()
			if err != nil {
				k.Drop()
				c.kill(errNoMemory)
				return false
			}
		}
		m = c.ring[c.start:c.end] // admit and reserve may have moved it
		k.setMemory(b, at, words)
		k.inRing = false
		c.large, c.place, c.further, c.most = k, b.Bytes()[:size], nil, size
	}
	c.placed = true
	// Send the gathered replies now, because the rest of the record may take long to arrive.
	c.pause()
	// Copy the bytes received so far to the record's own memory, as if they arrived only now.
	c.left += c.size
	c.size = 0
	c.copyFragment(m)
	return true
}

// copyFragment copies b, a part of the current fragment, to the record's own memory. If the exchange
// of an arriving reply has ended, copyFragment discards b.
func (c *conn) copyFragment(b []byte) {
	keep := true
	if c.reply != nil {
		if keep = c.reply.lock(); keep {
			defer c.reply.unlock()
		}
	}
	for len(b) > 0 {
		n := min(len(b), len(c.place))
		if keep {
			copy(c.place, b[:n])
		}
		b = b[n:]
		c.advance(n)
	}
}

// advance notes that n bytes of the current fragment have arrived in the record's own
// memory.
func (c *conn) advance(n int) {
	c.size += n
	c.left -= n
	c.place = c.place[n:]
	for len(c.place) == 0 && len(c.further) > 0 {
		c.place, c.further = c.further[0], c.further[1:]
	}
}

// outgrown is called when a fragment makes a record too long for the memory that it has. It refuses
// the call, or ends the exchange of the reply, and drops the rest of the record.
func (c *conn) outgrown() {
	if c.reply != nil {
		c.caller.fail(c.reply, ErrReplyTooLong)
		c.reply = nil
	} else {
		// The call is longer than the procedure's arguments can be.
		k := c.large
		c.large = nil
		k.Message, k.MessageLen = k.Memory.Bytes()[:c.size], c.size+c.left
		c.rpc.Oversize(&k.Call)
	}
	c.skip, c.placed, c.place, c.further = true, false, nil, nil
}
