package rdmacm

// Op is the kind of a work request.
type Op uint8

// Kinds of work.
const (
	// OpWrite places Local at Remote (RDMA Write). Length is that of Local.
	OpWrite Op = iota + 1
	// OpRead brings Length bytes from Remote into Local (RDMA Read), whose
	// total length must equal it. What is in Local before it is done, or where it
	// fails, is anything.
	OpRead
	// OpSend sends Local as one message.
	OpSend
	// OpSendInvalidate is OpSend that also invalidates the peer's STag
	// Invalidate.
	OpSendInvalidate
)

// String names the operation as the standards do.
func (o Op) String() string {
	switch o {
	case OpWrite:
		return "RDMA Write"
	case OpRead:
		return "RDMA Read"
	case OpSend:
		return "Send"
	case OpSendInvalidate:
		return "Send with Invalidate"
	}
	return "Op(?)"
}

// Remote names memory of the peer's.
type Remote struct {
	STag   uint32
	Offset uint64
}

// A Work is one work request.
type Work struct {
	Op Op
	// Local are the pieces of this side's memory, in order; the provider
	// refers to the list and to the pieces until Done. It changes the list
	// never, and the pieces where they are those of an OpRead. The pieces of
	// a Send or an RDMA Write may not be written to until then.
	//
	// The pieces may lie anywhere in the process, Go's heap included, and
	// need not be aligned. A device that reaches only memory that it was
	// shown knows the arena of payload memory (mem.Pool.OnArena); what lies
	// elsewhere its provider copies, or shows to the device for as long as the
	// work takes. So payload lies in the arena, to be moved without that; a
	// message's header and words, short as they are, may lie where they were
	// encoded.
	Local [][]byte
	// Remote is the memory of the peer that an OpWrite or OpRead names.
	Remote Remote
	// Invalidate is the STag of the peer's that an OpSendInvalidate
	// invalidates: see Limits.RemoteInvalidation. 0 names none: a peer's STag 0 is not
	// invalidated.
	Invalidate uint32
}

// Length is the number of bytes that w moves.
func (w *Work) Length() int {
	n := 0
	for _, b := range w.Local {
		n += len(b)
	}
	return n
}

// A Chain is work handed over at once: any number of Reads and Writes, then at
// most one Send. It belongs to the Conn from Post until Done.
type Chain struct {
	// Work is carried out in order. A Read's data is there when Done is called.
	Work []Work
	// Done is called exactly once, chains in the order of Post, whatever
	// became of the connection. err is nil when all of Work completed: local
	// memory may be used again. It does not say that the peer got anything.
	//
	// Otherwise err says who is to blame, by errors.Is. ErrFlushed: the end of the
	// connection took the work, and err has the reason for the end too, which is the
	// one given to Abort where this side aborted. ErrClosed: the connection had ended.
	// Any other error: work of this very chain failed, because the peer refused it or
	// the device could not, and would fail again. failed is the index of the work
	// request that failed, or did not complete; -1 where none can be named.
	//
	// It may be called from within Post, and must not block.
	Done func(c *Chain, err error, failed int)
	// Context is the caller's own.
	Context any
	// Provider is for the provider's own use. The caller leaves it as it is, so
	// that a chain that is posted again brings along what the provider keeps for
	// it; it is nil in a new chain.
	Provider any
	// Next is for the provider's queues between Post and Done.
	Next *Chain
}
