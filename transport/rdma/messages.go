package rdma

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// version is the version of all messages.
const version = wire.Version1

// messages is the layer of messages of one connection. The device below it carries Sends. The
// responder and the requester above it exchange messages:
//
//   - Version: the layer checks the header of each received message, and refuses other versions. It
//     begins the header of each message that it sends for the responder or requester.
//   - Parts: a message arrives as an inbound and leaves as an outbound. In version 1 a message is
//     one Recv, or one Send with the RDMA Writes that the device executes before it.
//   - Credits: they count calls in version 1 (requester.go). Each message that this side sends
//     permits the peer to send one: after a call its reply, after a reply the next call. Before the
//     layer sends, it makes itself ready to receive that message (promise).
//   - Completion: the layer calls outbound.sent once when the device has completed a posted
//     message, or the connection has ended.
type messages struct {
	device rdmacm.Conn
	own    wire.PrivateData
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
	// device has completed: replies, calls and RDMA Reads.
	sent, back atomic.Uint64
	// eased, if not nil, is called after each completed chain, because calls that are held (see
	// held) may start after it.
	eased func()
	// moved counts the bytes in both directions: inline, by Reads and by Writes.
	moved atomic.Uint64

	stats *Stats
	event func(Event) // may be nil
}

// promise makes this side ready to receive n further messages of the peer.
func (m *messages) promise(n int) { m.device.Provide(n, m.receiveSize) }

// An inbound is a received message: its header, and the Recv that holds its bytes.
type inbound struct {
	wire.Header
	recv *rdmacm.Recv
	// fault is the fault of the header, for which the responder will send an RDMA_ERROR, or
	// faultNone.
	fault Fault
}

// payload returns the Payload stream that follows the header.
func (m *inbound) payload() []byte { return m.recv.Bytes[m.Size:] }

// judge decodes the header of a message and makes the checks that do not depend on the call or
// reply that it belongs to. The order of the checks is that of RFC 8166 §4.5: length, RDMA_ERROR,
// version, procedure, lists. If the message is long enough, judge sets m.Prefix, even if it finds a
// fault. For an RDMA_ERROR it sets nothing else.
func (m *inbound) judge() Fault {
	p, ok := wire.ParsePrefix(m.recv.Bytes)
	m.Prefix = p
	switch {
	case !ok:
		return faultShort
	case p.Proc == wire.ProcError:
		// An RDMA_ERROR is accepted before the length is checked, because with ERR_CHUNK it is
		// shorter than other headers. It is accepted before the version is checked, because the
		// peer may have copied the version from a faulty message.
		return faultNone
	case len(m.recv.Bytes) < wire.MinHeader:
		return faultShort
	case p.Version != version:
		return faultVersion
	}
	switch p.Proc {
	case wire.ProcDone:
		return faultDone
	case wire.ProcMsg, wire.ProcNoMsg:
	default:
		return faultProcedure
	}
	switch m.Parse(m.recv.Bytes) {
	case nil:
		return faultNone
	case wire.ErrDiscriminator:
		return faultDiscriminator
	}
	return faultTruncated
}

// Received implements rdmacm.Handler.
func (k *connection) Received(r *rdmacm.Recv) {
	if !k.early.ready.Load() && k.early.keep(func() { k.received(r) }) {
		return
	}
	k.received(r)
}

// received passes a call to the responder, a reply or an RDMA_ERROR to the requester, and a faulty
// message to refuse.
func (k *connection) received(r *rdmacm.Recv) {
	k.moved.Add(uint64(len(r.Bytes)))
	m := inbound{recv: r}
	switch f := m.judge(); {
	case f != faultNone:
		k.refuse(f, &m)
	case m.Proc == wire.ProcError:
		k.refused(&m)
	case k.isReply(&m):
		k.requester.replied(&m)
	default:
		k.responder.arrived(&m)
	}
}

// refuse handles a message with a faulty header. refuse drops the message if the answer to the
// fault is answerDrop, if this side opened the connection, or if the message may be a reply to a
// pending call. Otherwise the responder sends an RDMA_ERROR.
func (k *connection) refuse(f Fault, m *inbound) {
	if faults[f].answer == answerDrop || k.dialed || k.mayBeReply(f, m) {
		k.drop(f, m)
		return
	}
	m.fault = f
	k.responder.arrived(m)
}

// mayBeReply reports whether a message with a faulty header may be a reply. Both directions
// choose their XIDs independently (RFC 8167 §2.4.1), so a pending XID is not proof enough.
// A reply also has the version of its call, and no Read list (RFC 8166 §4.3.1).
func (k *connection) mayBeReply(f Fault, m *inbound) bool {
	const readList = wire.PrefixSize
	reads := (f == faultTruncated || f == faultDiscriminator) && binary.BigEndian.Uint32(m.recv.Bytes[readList:]) == 1
	return f != faultVersion && !reads && k.requester != nil && k.requester.waits(m.XID)
}

// refused processes an RDMA_ERROR, which is never answered (RFC 8166 §4.5).
func (k *connection) refused(m *inbound) {
	body, ok := wire.ParseErrorBody(m.recv.Bytes)
	switch {
	case k.requester == nil:
		k.drop(faultStrayError, m)
	case !ok:
		k.drop(faultErrorCode, m)
	default:
		k.requester.refused(m, body)
	}
}

// isReply determines the direction of a message. On a bidirectional connection the RPC message type
// decides (RFC 8167 §5). If the Payload stream is not inline, the lists decide: a call in chunks
// has a Read list, a reply has none (RFC 8166 §4.3.1). If the peer opened the connection, a reply
// also has the XID of a pending call.
func (k *connection) isReply(m *inbound) bool {
	if k.responder == nil {
		return true
	}
	if k.requester == nil { // a reply is a fault then, which the responder answers
		return false
	}
	if m.Proc == wire.ProcNoMsg {
		return m.Reads.Len() == 0 && (k.dialed || k.requester.waits(m.XID))
	}
	payload := m.payload()
	return len(payload) >= 8 && binary.BigEndian.Uint32(payload[4:]) == uint32(rpc.TypeReply)
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

// beginError makes o an RDMA_ERROR that answers the message in the parameter in. The parameter a is
// answerVers or answerChunk. The RDMA_ERROR has the XID and the version of the message, even if the
// version is not supported (RFC 8166 §4.5). It grants the given number of credits.
func (m *messages) beginError(o *outbound, in *inbound, a Answer, credits uint32) {
	code := wire.ErrChunk
	if a == answerVers {
		code = wire.ErrVers
	}
	o.setHeaderSize(wire.MaxErrorSize)
	p := wire.Prefix{XID: in.XID, Version: in.Version, Credits: credits}
	n := wire.ErrorBody{Code: code, Low: version, High: version}.Put(o.head, p)
	o.setHeaderSize(n)
	o.invalidate = 0
}

// send first makes this side ready to receive the message that o permits the peer to send (RFC 8166
// §3.3.1). If o is a Send without RDMA Writes, and the device copies it, send returns true: o is sent
// and may be reused. Otherwise it posts o as a chain and returns false, and o.sent is called.
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
	m.promise(1)
	if len(o.work) > 0 || !m.device.SendShort(o.local, o.invalidate) {
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
