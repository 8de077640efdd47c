package rpc

import "github.com/nfsrdmad/nfsrdmad/rpc/xdr"

// Room is the space for the reply to one call, in bytes of the RPC message. Results with a place
// of their own (Way.Place) do not count.
type Room struct {
	// Inline is the largest reply without any chunk.
	Inline int
	// ReplyChunk is the largest reply in a Reply chunk, or 0 if the caller offers none. Over TCP
	// it is 0, and Inline bounds all replies.
	ReplyChunk int
	// Continued: a reply larger than Inline may continue in further messages (RPC-over-RDMA
	// version 2), so that Inline is no bound.
	Continued bool
}

// Largest returns the size of the largest reply message that can be carried back, without
// directly placed results.
func (r Room) Largest() int { return max(r.Inline, r.ReplyChunk) }

// A Refusal is a reason to answer a call without an RPC reply. A transport with errors of its own
// sends one (RPC-over-RDMA: RDMA_ERROR with ERR_CHUNK); another transport drops the call.
type Refusal uint8

// Reasons.
const (
	// RefuseNotACall: the bytes are not an RPC call with the expected XID.
	RefuseNotACall Refusal = iota + 1
	// RefuseChunk: an item travelled beside the message although it may not, or is too large for
	// every procedure.
	RefuseChunk
	// RefuseRoom: the reply does not fit the room that the caller offers.
	RefuseRoom
)

// A Way carries the reply to one call back. Exactly one of Send, Refuse, Drop and DropAndClose is
// called, once, from any goroutine. That returns the Call, and everything that belongs to it, to
// the transport. No method blocks.
type Way interface {
	// Room is known from the start.
	Room() Room
	// Place returns the length of the caller's own place (a Write chunk) for eligible result i,
	// counted from 0, in bytes. It returns false if there is none, so that the result goes with
	// the words. It is known from the start.
	Place(i int) (length int, ok bool)
	// Writer begins the reply anew. It returns a writer at the first word of the RPC message,
	// with a capacity of at least min(words, the Room). The writer is valid until Send, Refuse,
	// Drop, DropAndClose or the next Writer. Before Detach its memory may be shared with other
	// replies, so finish with this call before you begin another. If you abandon a writer,
	// release its payloads first: the rpc package does so before it calls Refuse, Drop,
	// DropAndClose or Writer again.
	Writer(words int) *xdr.Writer
	// Detach makes the call outlive its Serve: it replaces borrowed memory (the Message, the
	// Writer's memory) by memory of the call's own. An existing Writer stays the same, and keeps
	// its content and capacity. Further calls have no effect.
	Detach()
	// Send sends the Writer's content and takes over its payloads, which may be in any memory. If
	// the reply does not fit the Room, the Way answers with RefuseRoom.
	Send()
	// Refuse answers with an error of the transport.
	Refuse(r Refusal)
	// Drop forgets the call without an answer.
	Drop()
	// DropAndClose is Drop, and it ends the connection.
	DropAndClose()
}
