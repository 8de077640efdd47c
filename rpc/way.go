package rpc

import "github.com/nfsrdmad/nfsrdmad/rpc/xdr"

// Room is what can be carried back to the caller of one call, in bytes of the
// RPC message. Results that have a place of their own (Way.Place) count against
// none of it.
type Room struct {
	// Inline is the largest reply that goes without any chunk.
	Inline int
	// ReplyChunk is the largest reply that goes in a Reply chunk; 0 where
	// the caller offers none (TCP: 0, Inline is all).
	ReplyChunk int
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

// A Way is how the reply to one call goes back: one of Send, Refuse, Drop and
// DropAndClose is called, once, from any goroutine; the Call and all that belongs
// to it go back to the transport by that. None of its methods blocks.
type Way interface {
	// Room is known from the start.
	Room() Room
	// Place says how long eligible result number i, counted from 0, may be where
	// the caller offers a place of its own for it (a Write chunk), in bytes. It
	// is false where the result goes with the words. Known from the start.
	Place(i int) (length int, ok bool)
	// Writer begins the reply anew: a writer of the RPC message, from its
	// first word, with a capacity of at least min(words, what Room carries).
	// It belongs to the caller until Send, Refuse, Drop, DropAndClose or the
	// next Writer. Before Detach its memory may be shared with other replies: the
	// caller finishes with this call before it turns to another. Payloads that
	// a writer holds are released by the caller who abandons it: the rpc package
	// releases them before it calls Refuse, Drop, DropAndClose or Writer again.
	Writer(words int) *xdr.Writer
	// Detach says that the call outlives the Serve that it came by: what it
	// borrowed (its Message, its Writer's memory) becomes its own. A Writer that
	// was begun stays the same and keeps what it holds and its capacity.
	// Idempotent.
	Detach()
	// Send sends what the Writer holds and takes over its payloads, which may
	// be any memory. What turns out not to fit the Room is refused with
	// RefuseRoom by the Way.
	Send()
	// Refuse answers with the transport's own error.
	Refuse(r Refusal)
	// Drop forgets the call without an answer.
	Drop()
	// DropAndClose is Drop, and ends the connection.
	DropAndClose()
}
