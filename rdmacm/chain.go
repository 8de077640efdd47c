package rdmacm

// Op is the kind of a work request.
type Op uint8

// Kinds of work.
const (
	// OpWrite places Local at Remote (RDMA Write). Length is that of Local.
	OpWrite Op = iota + 1
	// OpRead brings Length bytes from Remote into Local (RDMA Read), whose
	// total length must equal it.
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

// A Work is one work request. The provider does not copy Local nor what it
// refers to, and changes neither.
type Work struct {
	Op         Op
	Local      [][]byte
	Remote     Remote
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
	// failed is the index in Work of the request that failed, or -1.
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
