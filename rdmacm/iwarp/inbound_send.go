package iwarp

import (
	"math/bits"
	"sync"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// An inboundMessage is the buffer of an arriving Send, and the Recv that passes it to the Handler.
type inboundMessage struct {
	rdmacm.Recv
	stock *messages
	class int
	store []byte
}

// messages is the pool of receive buffers of all connections, by size. The number in use is
// limited by how many messages the connections promise to accept (rdmacm.Conn.Provide). The
// garbage collector frees buffers that are not in use.
type messages struct {
	classes [messageClasses]sync.Pool
}

// Buffer sizes are powers of two from 512 bytes to 1 MiB. A longer buffer (oddSized) is allocated
// for one message.
const (
	minMessageShift = 9
	messageClasses  = 12
	oddSized        = -1
)

// openSend is the Send message whose last segment has not arrived.
type openSend struct {
	open    bool
	op      wire.Opcode
	stag    uint32
	length  int
	message *inboundMessage
}

// Provide implements rdmacm.Conn.
func (c *Conn) Provide(count, size int) {
	if count < 0 || size < 0 {
		panic("iwarp: Provide of a negative number")
	}
	c.rx.promise(count, size)
}

// promise allows the peer to send count more messages of up to size bytes each.
func (x *receiver) promise(count, size int) {
	for {
		old := x.promisedSize.Load()
		if int64(size) <= old || x.promisedSize.CompareAndSwap(old, int64(size)) {
			break
		}
	}
	x.promised.Add(int64(count))
}

// wholeSend processes an FPDU that is a complete Send and lies completely in the ring: nearly all
// small messages do. It returns false, and has done nothing, if the FPDU is of another kind,
// incomplete or faulty. In that case step processes the FPDU.
func (x *receiver) wholeSend() bool {
	const header = wire.LengthSize + wire.UntaggedSize
	in := x.ring.buf[x.r:x.w]
	if len(in) < header || !x.begun || x.send.open {
		return false
	}
	is, invalidates := wire.IsLastOfSend(in[wire.LengthSize:])
	if !is {
		return false
	}
	ulpdu := wire.ULPDULength(in)
	size, length := wire.FPDUSize(ulpdu), ulpdu-wire.UntaggedSize
	if length < 0 || len(in) < size || length > int(x.promisedSize.Load()) {
		return false
	}
	h := wire.ParseUntagged(in[wire.LengthSize:])
	if h.Queue != wire.QueueSend || h.MSN != x.msn[wire.QueueSend]+1 || h.Offset != 0 {
		return false
	}
	if crc := in[size-wire.CRCSize:]; x.agreed.CRC && wire.ParseCRC(crc) != wire.CRC(0, in[:size-wire.CRCSize]) {
		return false
	}
	if x.promised.Add(-1) < 0 {
		x.promised.Add(1)
		return false
	}
	invalidated := uint32(0)
	if invalidates {
		if x.regions.invalidate(h.Invalidate) != none {
			x.promised.Add(1)
			return false
		}
		invalidated = h.Invalidate
	}
	m := x.p.messages.get(length)
	copy(m.store, in[header:header+length])
	x.r += size
	x.msn[wire.QueueSend]++
	if x.streak > 0 {
		x.streak--
	}
	x.deliver(m, length, invalidated)
	return true
}

func (s *messages) get(size int) *inboundMessage {
	class := 0
	if size > 1<<minMessageShift {
		class = bits.Len(uint(size-1)) - minMessageShift
	}
	if class >= messageClasses {
		class = oddSized
	} else if m, ok := s.classes[class].Get().(*inboundMessage); ok {
		return m
	} else {
		size = 1 << (minMessageShift + class)
	}
	m := &inboundMessage{stock: s, class: class, store: make([]byte, size)}
	m.Provider, m.Free = m, freeMessage
	return m
}

// deliver passes a message of n bytes to the Handler, and the steering tag that the message
// invalidated, or 0.
func (x *receiver) deliver(m *inboundMessage, n int, invalidated uint32) {
	m.Bytes, m.Invalidated = m.store[:n], invalidated
	x.border = false
	x.empty = 0
	x.handler.Received(&m.Recv)
}

// freeMessage is the function Free of each Recv. Recv.Release calls it when the Handler releases
// the message.
func freeMessage(r *rdmacm.Recv) { r.Provider.(*inboundMessage).recycle() }

// recycle returns the buffer to the pool.
func (m *inboundMessage) recycle() {
	m.Bytes, m.Invalidated = nil, 0
	if m.class != oddSized {
		m.stock.classes[m.class].Put(m)
	}
}

// judgeSend checks a segment of a Send of any type (RFC 5041 §7.1), and makes sure that the
// message has a buffer.
func (x *receiver) judgeSend() {
	f := &x.fpdu
	h, s := &f.untagged, &x.send
	limit := int(x.promisedSize.Load())
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
		if x.isRTRSend() {
			return
		}
		if x.promised.Load() <= 0 {
			f.wrong(wire.DDPNoBuffer, nil)
			return
		}
	}
	if f.left > limit-s.length {
		f.wrong(wire.DDPTooLong, &rdmacm.LengthError{Length: s.length + f.left, Limit: limit})
		return
	}
	if !s.open {
		x.promised.Add(-1)
		s.open, s.op = true, h.Op
		s.stag = h.Invalidate
	}
	x.provide(s.length+f.left, limit, h.Last)
	f.target = toMessage
}

// isRTRSend reports whether the current FPDU is the initiator's ready-to-receive Send. Such
// a Send is not for the ULP (RFC 6581 §9.2).
func (x *receiver) isRTRSend() bool {
	f := &x.fpdu
	return x.responder && !x.begun && x.agreed.PeerToPeer && x.agreed.rtr&wire.RTRSend != 0 &&
		f.untagged.Op == wire.Send && f.left == 0 && f.untagged.Last
}

// provide makes the buffer of the open message hold size bytes. Only the last segment
// reveals a message's length; before it arrives, the buffer grows with the message.
func (x *receiver) provide(size, limit int, last bool) {
	s := &x.send
	if s.message != nil && len(s.message.store) >= size {
		return
	}
	if !last {
		size = min(2*size, limit)
	}
	m := x.p.messages.get(size)
	if s.message != nil {
		copy(m.store, s.message.store[:s.length])
		s.message.recycle()
	}
	s.message = m
}

// endSend delivers the complete message.
func (x *receiver) endSend() {
	f := &x.fpdu
	s := &x.send
	x.msn[wire.QueueSend]++
	if !s.open {
		return // the ready-to-receive message
	}
	m, invalidated := s.message, uint32(0)
	if s.op.Invalidates() {
		if cause := x.regions.invalidate(s.stag); cause != (wire.Cause{}) {
			f.wrong(cause, nil)
			return
		}
		invalidated = s.stag
	}
	n := s.length
	*s = openSend{}
	x.deliver(m, n, invalidated)
}
