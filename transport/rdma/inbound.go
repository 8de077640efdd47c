package rdma

import (
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// A kind says what this side does with a message.
type kind uint8

const (
	kindDrop  kind = iota // discard it because of its fault
	kindDone              // nothing: the framing has done it
	kindCall              // serve it, or answer its fault with an RDMA_ERROR
	kindReply             // the outcome of a call
	kindError             // the refusal of a call
)

// An inbound is a received message in terms that all versions have in common. framing.read makes it.
// The chunk lists alias the bytes of recv.
type inbound struct {
	recv *rdmacm.Recv
	kind kind
	// fault is the reason why the message is not served, or faultNone.
	fault Fault
	// xid and version are the first two words of the message.
	xid, version uint32
	// credits is how many calls this side may have outstanding, by the message of the peer.
	credits uint32
	// external is true if the Payload stream is in a chunk: that of a call is in its Read chunk at
	// position zero, that of a reply in the Reply chunk.
	external bool
	// wraps is true if a segment of a call reaches beyond the last 64-bit offset.
	wraps bool
	// body and reads are the Read lists. body may hold the segments of position zero.
	body, reads wire.ReadList
	// offer holds the chunks for the reply: as a call offers them, or as a reply returns them.
	offer wire.Offer
	// size is the length of the header, in bytes. The Payload stream, if it is inline, starts there.
	size int
	// whole, unless nil, is the Payload stream. Its parts came in several Sends, and recv is the last.
	whole *stream
	// invalidate is the STag that a reply to the call may invalidate, or 0.
	invalidate uint32
	// refusal is the error with which an RDMA_ERROR ends its call. If the RDMA_ERROR cannot be
	// decoded, it is nil. For a reply, it is the error with which a reply that does not match its call
	// ends the call, or nil if the call then stays pending.
	refusal error
	// lack says what a call that is refused for want of room would have needed.
	lack lack
}

// lack is a chunk that is too short: the number of a Write chunk, counted from 1, or 0 for the Reply
// chunk; and the length in bytes that it would need.
type lack struct{ chunk, bytes uint32 }

// payload returns the Payload stream that follows the header, or came in parts.
func (m *inbound) payload() []byte {
	if m.whole != nil {
		return m.whole.bytes
	}
	return m.recv.Bytes[m.size:]
}

// cost returns the length of the memory that the message occupies, in bytes.
func (m *inbound) cost() int {
	if m.whole != nil {
		return cap(m.recv.Bytes) + cap(m.whole.bytes)
	}
	return cap(m.recv.Bytes)
}

// offers reports whether a call has chunks for its reply.
func (m *inbound) offers() bool { return m.offer.Writes.Len() > 0 || m.offer.Reply.Present }

// chunks reports whether a message has chunks.
func (m *inbound) chunks() bool { return m.body.Len() > 0 || m.reads.Len() > 0 || m.offers() }
