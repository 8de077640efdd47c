package rdmacm

// Op is the kind of a work request.
type Op uint8

// Kinds of work.
const (
	// OpWrite places Local at Remote (RDMA Write). Length is that of Local.
	OpWrite Op = iota + 1
	// OpRead brings Length bytes from Remote into Local (RDMA Read). The total length of
	// Local must equal Length. The content of Local is undefined until the Read is done,
	// and if the Read fails.
	OpRead
	// OpSend sends Local as one message.
	OpSend
	// OpSendInvalidate sends Local as one message, which also invalidates the peer's STag
	// Work.Invalidate.
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

// Remote names memory of the peer by its STag and the tagged offset of its first byte.
type Remote struct {
	STag   uint32
	Offset uint64
}

// A Work is one work request.
type Work struct {
	Op Op
	// Local lists the pieces of this side's memory, in order. The provider refers to the
	// list and to the pieces until Done. It never changes the list, and writes to the
	// pieces only for an OpRead. The pieces of a Send or an RDMA Write must not change
	// until Done.
	//
	// The pieces may lie anywhere in the process, Go's heap included, and need not be aligned.
	// Some devices reach only memory that was registered with them. The provider of such a
	// device registers the arena of payload memory (mem.Pool.OnArena). If a piece lies
	// elsewhere, the provider copies it, or registers it until the work is done. So the caller
	// should keep payload in the arena, where the device accesses it directly. A message's
	// header and XDR are short, and may lie where they were encoded.
	Local [][]byte
	// Remote is the memory of the peer that an OpWrite or OpRead names.
	Remote Remote
	// Invalidate is the peer's STag that an OpSendInvalidate invalidates: see
	// Limits.RemoteInvalidation. 0 means no STag, so a peer's STag 0 cannot be invalidated.
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

// A Chain is a list of work requests that are posted together: any number of Reads and
// Writes, then at most one Send. The provider owns it from Post until Done.
type Chain struct {
	// Work is carried out in order. A Read's data is in place when Done is called.
	Work []Work
	// The provider calls Done exactly once for each chain, in the order of Post, also if the
	// connection has ended. If all of Work completed, err is nil, and the caller may use the
	// local memory again. A nil err does not mean that the peer received anything.
	//
	// If err is not nil, errors.Is tells the cause. ErrFlushed means that the connection ended
	// while the work was outstanding. err then also wraps the reason for the end. If this side
	// aborted, that is the error given to Abort. ErrClosed means that the connection had ended
	// before Post. Any other error means that work of this chain failed, because the peer
	// refused it or the device could not do it, and that it would fail again. failed is the
	// index of the work request that failed or did not complete, or -1 if the provider cannot
	// name one.
	//
	// The provider may call Done from within Post. Done must not block.
	Done func(c *Chain, err error, failed int)
	// Context is for the caller. Providers do not use it.
	Context any
	// Provider is for the provider. It is nil in a new chain. The caller does not change it, so
	// that the provider finds its data again if the chain is posted again.
	Provider any
	// Next links the chains in the provider's queues between Post and Done.
	Next *Chain
}
