package rpc

import "github.com/nfsrdmad/nfsrdmad/rpc/xdr"

// Room is the space that the caller offers for the reply to one call, in bytes of the RPC message.
// It does not include results that go into a Write chunk (Way.Place).
type Room struct {
	// Inline is the largest reply without any chunk.
	Inline int
	// ReplyChunk is the largest reply in a Reply chunk, or 0 if the caller offers none. Over TCP
	// it is 0, and Inline bounds all replies.
	ReplyChunk int
	// Continued is true if a reply larger than Inline may continue in further messages
	// (RPC-over-RDMA version 2). Inline is then no bound.
	Continued bool
}

// Largest returns the size of the largest reply message that fits, in bytes, without directly
// placed results.
func (r Room) Largest() int { return max(r.Inline, r.ReplyChunk) }

// A Refusal is a reason to end a call without an RPC reply. RPC-over-RDMA sends its own error
// message instead (RDMA_ERROR with ERR_CHUNK). A transport without error messages drops the call.
type Refusal uint8

// Values of Refusal.
const (
	// RefuseNotACall means that the message is not an RPC call.
	RefuseNotACall Refusal = iota + 1
	// RefuseChunk means that an item in a Read chunk is not eligible for direct data placement, or
	// is larger than the procedure allows.
	RefuseChunk
	// RefuseRoom means that the reply does not fit into the space that the caller offers.
	RefuseRoom
)

// A Way is the transport's object for the reply to one call. To end the call, the rpc package calls
// exactly one of Send, Refuse, Drop and DropAndClose, once, from any goroutine. The Call and its
// memory then belong to the transport again. No method blocks.
type Way interface {
	// Room returns the space that the caller offers. It may be called from Admit on.
	Room() Room
	// Place returns the length, in bytes, of the Write chunk that the caller offers for eligible
	// result i, counted from 0. If there is none, it returns false, and the result goes into the
	// message. It may be called from Admit on.
	Place(i int) (length int, ok bool)
	// Writer begins a new reply. It returns an empty writer for the RPC message, with a capacity in
	// bytes of at least the smaller of words and Room().Largest(). The writer is valid until Send,
	// Refuse, Drop, DropAndClose or the next Writer. Before Detach, the writer's memory may be
	// shared by all calls of the connection, so the caller has to finish this call before it begins
	// another one. The Way does not release the payloads of a reply that is not sent: the rpc
	// package releases them before it calls Refuse, Drop, DropAndClose or Writer again.
	Writer(words int) *xdr.Writer
	// Detach copies the Message and the Writer's content from memory that the connection shares to
	// memory of the call's own, so that the call can continue after Serve has returned. A writer
	// that was returned before stays valid, with the same content and capacity. Further calls of
	// Detach have no effect.
	Detach()
	// Send sends the Writer's content and payloads, and releases the payloads later. They may be in
	// any memory. If the reply does not fit the Room, Send acts like Refuse(RefuseRoom).
	Send()
	// Refuse answers with an error message of the transport, or drops the call if the transport has
	// none.
	Refuse(r Refusal)
	// Drop ends the call without a reply.
	Drop()
	// DropAndClose is like Drop, and also closes the connection.
	DropAndClose()
}
