package rpc

import "github.com/nfsrdmad/nfsrdmad/rpc/xdr"

// Room is what can be carried back to the caller of one call, in bytes of the
// RPC message.
type Room struct {
	// Inline is the largest reply that goes without any chunk.
	Inline int
	// ReplyChunk is the largest reply that goes in a Reply chunk; 0 where
	// the caller offers none (TCP: 0, Inline is all).
	ReplyChunk int
	// WriteChunks is how many eligible results can be placed directly, and
	// WriteBytes how many bytes they can hold together. Such results do not
	// count against Inline or ReplyChunk.
	WriteChunks, WriteBytes int
	// Continued: a reply beyond Inline may go on in further messages
	// (RPC-over-RDMA version 2), so that Inline is no bound.
	Continued bool
}

// Largest is the largest reply message, without directly placed results, that
// can be carried back.
func (r Room) Largest() int { return max(r.Inline, r.ReplyChunk) }

// Refusal is why a call is not answered by an RPC reply. A transport that has
// an error of its own for it sends that (RPC-over-RDMA: RDMA_ERROR with
// ERR_CHUNK); one that has none drops the call.
type Refusal uint8

// Reasons.
const (
	// RefuseNotACall: the bytes are no RPC call with the XID expected.
	RefuseNotACall Refusal = iota + 1
	// RefuseChunk: something was moved beside the message that may not be,
	// or is larger than anything served here.
	RefuseChunk
	// RefuseRoom: the reply cannot be carried back with what the caller
	// offers.
	RefuseRoom
)

// A Way is how the reply to one call goes back: one of Send, Refuse and Drop is
// called, once, from any goroutine; the Call and all that belongs to it go back
// to the transport by that. None of its methods blocks.
type Way interface {
	// Room is known from the start.
	Room() Room
	// Writer begins the reply anew: a writer of the RPC message, from its
	// first word, with a capacity of at least min(words, what Room carries).
	// It belongs to the caller until Send, Refuse, Drop or the next Writer.
	// Before Detach its memory may be shared with other replies: the caller
	// finishes with this call before it turns to another. Payloads that a
	// writer holds are released by whoever abandons it: the rpc package
	// releases them before it calls Detach, Refuse, Drop or Writer again.
	Writer(words int) *xdr.Writer
	// Detach says that the call outlives the Serve that it came by: what it
	// borrowed (its Message, its Writer) becomes its own. The Writer, if one
	// was begun, must be begun anew. Idempotent.
	Detach()
	// Send sends what the Writer holds and takes over its payloads, which may
	// be any memory. What turns out not to fit the Room is refused with
	// RefuseRoom by the Way.
	Send()
	// Refuse answers with the transport's own error.
	Refuse(r Refusal)
	// Drop forgets the call without an answer.
	Drop()
}
