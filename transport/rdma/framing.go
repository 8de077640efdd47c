package rdma

import (
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// A framing is the part of one version of RPC-over-RDMA that differs from the other versions: the form
// of headers, and which messages permit the peer to send others. The responder and the requester of a
// connection are the same for all versions, and know headers only through the framing.
//
// Sizes are in bytes. Received calls read, which nothing else may call at the same time. Any
// goroutine may call the other methods. They allocate no memory, except for the set-up of version 2 and for
// faulty messages. Messages in parts have memory of pools.
type framing interface {
	// read decodes the header of a message, and decides what kind of message it is.
	read(r *rdmacm.Recv) inbound

	// replySize returns the length of the header of a reply to the call m. If external is true, the
	// reply's Payload stream goes into the call's Reply chunk.
	replySize(m *inbound, external bool) int
	// putReply writes the header of a reply to the call m to head, whose length is replySize.
	putReply(head []byte, m *inbound, r returned)
	// putError makes o an RDMA_ERROR that refuses the message m because of the fault f, and returns
	// which Answer that is.
	putError(o *outbound, m *inbound, f Fault) Answer

	// callSize returns the length of the header of a call with the chunks l. If external is true, the
	// Payload stream is in the Read chunk at position zero. answerSize returns the length of the
	// header of the reply, if the reply's Payload stream is inline.
	callSize(l *wire.Lists, external bool) int
	answerSize(l *wire.Lists) int
	// putCall writes the header of the call xid to head, whose length is callSize. The call requests
	// the given number of credits.
	putCall(head []byte, xid uint32, l *wire.Lists, requested uint32, external bool)

	// longest returns the length of the longest Payload stream that may travel without a chunk in a
	// given number of Sends, the last of which has a header of the given length. limit is the length of
	// the longest Send. Version 1 has only messages of one Send.
	longest(header, limit, sends int) int

	// post sends a call, a reply or an RDMA_ERROR. First it makes this side ready to receive the message
	// that the peer may then send. The result is that of messages.send.
	post(o *outbound) bool
	// discard is called for each received message that gets no answer, except replies and
	// RDMA_ERRORs that end a call.
	discard()
	// permit makes this side ready to receive n more messages, and permits the peer to send them.
	permit(n int)
	// mayCall reports whether the peer permits another message now. If not, the framing lets the
	// requester try again (requester.resume) when the peer permits more. Version 1 counts only calls,
	// which the requester does itself.
	mayCall() bool
	// closed is called once, when the connection has ended.
	closed()
}

// returned says how a reply uses the chunks of its call.
type returned struct {
	// used[i] is the number of bytes in Write chunk i; missing entries are 0.
	used []uint64
	// If external is true, the Payload stream is in the Reply chunk, and has length bytes.
	external bool
	length   int
}
