package iwarp

import (
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// openSend is the Send message whose last segment has not arrived.
type openSend struct {
	open    bool
	op      wire.Opcode
	stag    uint32
	length  int
	message *inboundMessage
}

// judgeSend checks a segment of a Send of any type (RFC 5041 §7.1) and provides
// its buffer.
func (c *Conn) judgeSend() {
	x, f := &c.rx, &c.rx.fpdu
	h, s := &f.untagged, &c.rx.send
	limit := int(c.promisedSize.Load())
	switch {
	case h.Queue != wire.QueueSend:
		f.wrong(wire.DDPQueue, nil)
		return
	case h.MSN != x.msn[wire.QueueSend]+1:
		f.wrong(wire.DDPMSN, nil)
		return
	case s.open && s.op != h.Op:
		f.wrong(wire.RDMAPOpcode, nil)
		return
	case h.Offset != uint32(s.length):
		f.wrong(wire.DDPOffset, nil)
		return
	}
	if !s.open {
		if c.isRTRSend() {
			return
		}
		if c.promised.Load() <= 0 {
			f.wrong(wire.DDPNoBuffer, nil)
			return
		}
	}
	if f.left > limit-s.length {
		f.wrong(wire.DDPTooLong, &rdmacm.LengthError{Length: s.length + f.left, Limit: limit})
		return
	}
	if !s.open {
		c.promised.Add(-1)
		s.open, s.op = true, h.Op
		s.stag = h.Invalidate
	}
	c.provide(s.length+f.left, limit, h.Last)
	f.target = toMessage
}

// isRTRSend: the current FPDU is the initiator's ready-to-receive Send, which
// is not for the ULP (RFC 6581 §9.2).
func (c *Conn) isRTRSend() bool {
	f := &c.rx.fpdu
	return c.responder && !c.rx.begun && c.agreed.PeerToPeer && c.agreed.RTR&wire.RTRSend != 0 &&
		f.untagged.Op == wire.Send && f.left == 0 && f.untagged.Last
}

// provide makes the open message's buffer hold size bytes. The length of a
// message is known from its last segment only: before that, the buffer grows
// with what arrives.
func (c *Conn) provide(size, limit int, last bool) {
	s := &c.rx.send
	if s.message != nil && len(s.message.store) >= size {
		return
	}
	if !last {
		size = min(2*size, limit)
	}
	m := c.p.messages.get(size)
	if s.message != nil {
		copy(m.store, s.message.store[:s.length])
		s.message.free()
	}
	s.message = m
}

// endSend delivers the message that is complete.
func (c *Conn) endSend() {
	x, f := &c.rx, &c.rx.fpdu
	s := &x.send
	x.msn[wire.QueueSend]++
	if !s.open {
		return // the ready-to-receive message
	}
	m := s.message
	if s.op.Invalidates() {
		if cause := c.invalidate(s.stag); cause != (wire.Cause{}) {
			f.wrong(cause, nil)
			return
		}
		m.Invalidated = s.stag
	}
	m.Bytes = m.store[:s.length]
	c.p.counters.sendsIn.Add(1)
	c.p.counters.sendBytesIn.Add(uint64(s.length))
	*s = openSend{}
	x.drain = true
	c.handler.Received(&m.Recv)
}
