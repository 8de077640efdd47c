package rdma

import (
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// messages is the layer of messages of one connection. The device below it carries Sends. The
// responder and the requester above it exchange messages:
//
//   - Version: framing reads the header of each received message, and puts the header of each
//     message that is sent. Only the framing knows the header's form.
//   - Parts: a message arrives as an inbound and leaves as an outbound. In version 1 a message is
//     one Recv, or one Send with the RDMA Writes that the device executes before it.
//   - Credits: framing knows which messages permit the peer to send others, and makes this side
//     ready to receive those (promise).
//   - Completion: the layer calls outbound.sent once when the device has completed a posted
//     message, or the connection has ended.
type messages struct {
	device  rdmacm.Conn
	framing framing
	own     wire.PrivateData
	// These sizes are in bytes. sendLimit is the size of the largest message that this side may
	// send. receiveSize is the size of each receive buffer that this side provides. receiveLimit is
	// the size of the largest message that the peer will send.
	sendLimit, receiveSize, receiveLimit int
	// maxLocal is how many buffers one work request may consist of.
	maxLocal int
	// invalidate is true if both sides and the device allow remote invalidation (RFC 8797 §4.1).
	invalidate bool
	// granted is for how many calls of the peer this side is ready. A message to a requester grants
	// as many credits, or fewer (responder.credits).
	granted atomic.Uint32

	// sent counts the chains (rdmacm.Chain) given to the device, and back the chains that the
	// device has completed: replies, calls and RDMA Reads. In version 2, sent also counts the messages that
	// wait until the peer permits them, and an RPC message of the peer of which not all parts have come.
	sent, back atomic.Uint64
	// eased, if not nil, is called after each completed chain, because calls that are held (see
	// held) may start after it.
	eased func()
	// moved counts the bytes in both directions: inline, by Reads and by Writes.
	moved atomic.Uint64

	// version is the version of a server's connection, or 0 before the client's first message has decided it.
	version atomic.Int32

	stats *Stats
	event func(Event) // may be nil
}

// promise makes this side ready to receive n further messages of the peer.
func (m *messages) promise(n int) { m.device.Provide(n, m.receiveSize) }

// Received implements rdmacm.Handler.
func (k *connection) Received(r *rdmacm.Recv) {
	if !k.early.ready.Load() && k.early.keep(func() { k.received(r) }) {
		return
	}
	k.received(r)
}

// received passes a call, or a faulty message that gets an answer, to the responder, and a reply or an
// RDMA_ERROR to the requester. It discards other messages.
func (k *connection) received(r *rdmacm.Recv) {
	k.moved.Add(uint64(len(r.Bytes)))
	switch m := k.framing.read(r); m.kind {
	case kindCall:
		k.responder.arrived(&m)
	case kindReply:
		k.requester.replied(&m)
	case kindError:
		k.refused(&m)
	case kindDrop:
		k.drop(m.fault, &m)
	case kindDone:
	}
}

// refused processes an RDMA_ERROR, which is never answered (RFC 8166 §4.5).
func (k *connection) refused(m *inbound) {
	switch {
	case k.requester == nil:
		k.drop(faultStrayError, m)
	case m.refusal == nil:
		k.drop(faultErrorCode, m)
	default:
		k.requester.refused(m)
	}
}

// An outbound is a message to be sent. The responder or requester that sends it must not change its
// buffers until send has returned true, or sent is called.
type outbound struct {
	// local is the message: the header, which is head, then the pieces of the Payload
	// stream that travel inline.
	head  []byte
	local [][]byte
	// work lists the RDMA Writes that the device executes before the message.
	work []rdmacm.Work
	// invalidate is the peer's STag that the message invalidates, or 0.
	invalidate uint32
	// Only version 2 uses the following fields. role is what the message means for credits, permits how many
	// messages it permits the peer to send, and next its link in the queue of waiting messages. middle is true
	// for a part that is not the last one of its RPC message. Such a part has sends, the number of the messages that
	// are left of the RPC message, including this one.
	role    role
	permits int
	next    *outbound
	middle  bool
	sends   int
	// parts, unless nil, are the messages before this one that belong to the same RPC message.
	parts *parts
	// sent is called once for each posted message, with its outcome; see rdmacm.Chain. It stays the
	// same when the outbound is used again.
	sent func(err error, failed int)

	layer *messages
	chain rdmacm.Chain
	size  int    // total length of work and local, in bytes
	flat  []byte // copy of local in one piece
}

// init prepares a new outbound. The parameter head is the initial capacity of its header, in bytes.
// The function sent is called with the outcome of each posted message.
func (o *outbound) init(head int, sent func(err error, failed int)) {
	o.head, o.sent = make([]byte, 0, head), sent
	o.chain.Done, o.chain.Context = outboundDone, o
}

// ignoreOutcome is the function sent of an outbound that is used once.
func ignoreOutcome(error, int) {}

// setHeaderSize begins the message with a header of n bytes, which the caller writes to head. The
// buffer grows only for a reply that returns many segments of the peer, or for a call with long
// chunk lists.
func (o *outbound) setHeaderSize(n int) {
	if n > cap(o.head) {
		o.head = make([]byte, n)
	}
	o.head = o.head[:n]
	o.local = append(o.local[:0], o.head)
}

// send hands o to the device; framing.post says when. If o is a Send without RDMA
// Writes, and the device copies it, send returns true: o is sent and may be reused. Otherwise it posts
// o as a chain and returns false, and o.sent is called.
func (m *messages) send(o *outbound) bool {
	if len(o.local) > m.maxLocal {
		o.flat = o.flat[:0]
		for _, b := range o.local {
			o.flat = append(o.flat, b...)
		}
		o.local = append(o.local[:0], o.flat)
	}
	o.size = 0
	for _, b := range o.local {
		o.size += len(b)
	}
	if len(o.work) > 0 || o.parts != nil || !m.device.SendShort(o.local, o.invalidate) {
		m.post(o)
		return false
	}
	m.moved.Add(uint64(o.size))
	return true
}

// post posts o as a chain.
func (m *messages) post(o *outbound) {
	for i := range o.work {
		o.size += o.work[i].Length()
	}
	send := rdmacm.Work{Op: rdmacm.OpSend, Local: o.local}
	if o.invalidate != 0 {
		send.Op, send.Invalidate = rdmacm.OpSendInvalidate, o.invalidate
	}
	o.work = append(o.work, send)
	o.chain.Work = o.work
	o.layer = m
	m.postChain(&o.chain)
}

// postChain hands a chain to the device. The chain's Done function has to call returned.
func (m *messages) postChain(c *rdmacm.Chain) {
	m.sent.Add(1)
	m.device.Post(c)
}

// returned counts a chain that the device has completed.
func (m *messages) returned() {
	m.back.Add(1)
	if m.eased != nil {
		m.eased()
	}
}

// outboundDone is the Done function of an outbound's chain.
func outboundDone(chain *rdmacm.Chain, err error, failed int) {
	o := chain.Context.(*outbound)
	m := o.layer
	o.layer, chain.Work = nil, nil
	m.returned()
	if err == nil {
		m.moved.Add(uint64(o.size))
	}
	o.sent(err, failed)
}

// reset clears the outbound for another message.
func (o *outbound) reset() {
	clear(o.work)
	clear(o.local)
	o.work, o.local, o.invalidate = o.work[:0], o.local[:0], 0
	if o.parts != nil {
		o.parts.put()
		o.parts = nil
	}
}

// padding holds the pad bytes of opaque items.
var padding [4]byte

// appendStream appends to dst the pieces of w's stream that travel inline: words, payloads
// and padding. A payload whose entry in elsewhere is not negative travels in a chunk; its
// padding does not travel at all (RFC 8166 §3.4.4).
func appendStream(dst [][]byte, w *xdr.Writer, elsewhere []int32) [][]byte {
	add := func(b []byte) {
		if len(b) > 0 {
			dst = append(dst, b)
		}
	}
	words, at := w.Bytes(), 0
	for i, p := range w.Payloads() {
		if elsewhere[i] >= 0 {
			continue
		}
		add(words[at:p.Position])
		at = p.Position
		add(p.Data)
		add(padding[:xdr.Pad(len(p.Data))])
	}
	add(words[at:])
	return dst
}

// streamLen returns the length of the pieces that appendStream lists.
func streamLen(w *xdr.Writer, elsewhere []int32) int {
	n := w.StreamLen()
	for i, p := range w.Payloads() {
		if elsewhere[i] >= 0 {
			n -= padded(len(p.Data))
		}
	}
	return n
}

// padded returns n plus the padding of an opaque of n bytes.
func padded(n int) int { return n + xdr.Pad(n) }
