package rdma

import "sync/atomic"

// Stats counts what the connections of a Server or Client did. All fields only
// grow, but for Connections.
type Stats struct {
	// Connections is how many there are now; Accepted how many there were.
	Connections, Accepted atomic.Int64

	// Calls and Replies are messages of the responder's; Long those of them in
	// a Position-Zero Read chunk or a Reply chunk.
	Calls, LongCalls, Replies, LongReplies atomic.Int64
	// ReadsDeferred are calls that waited to ask for memory until the Reads of
	// others had come back.
	ReadsDeferred atomic.Int64
	// Held are calls that waited as they arrived, while memory was short.
	Held atomic.Int64
	// Dropped calls got no answer.
	Dropped atomic.Int64
	// ErrVers and ErrChunk are RDMA_ERRORs sent.
	ErrVers, ErrChunk atomic.Int64
	// Discarded messages were neither served nor answered: too short,
	// RDMA_DONE, RDMA_ERROR for nobody, replies that nobody waits for or that
	// cannot be decoded.
	Discarded atomic.Int64

	// Bytes by their way.
	BytesInlineIn, BytesInlineOut atomic.Int64
	BytesRead                     atomic.Int64 // RDMA Read, position-zero chunks included
	BytesWritten                  atomic.Int64 // Write chunks
	BytesReplyChunk               atomic.Int64
	// Invalidated replies named an STag to invalidate.
	Invalidated atomic.Int64

	// Answers are replies to this side's calls, Refused the RDMA_ERRORs,
	// BadReplies those of Discarded that did not match their call.
	Answers, Refused, BadReplies atomic.Int64

	// Starved are connections lost because memory was short and the peer moved
	// too little.
	Starved atomic.Int64
	// Timeouts are connections lost because the peer took no part.
	Timeouts atomic.Int64
	// Overruns are connections lost because the peer made more calls than it
	// was granted.
	Overruns atomic.Int64
	// FailedWork are connections lost because an RDMA operation failed.
	FailedWork atomic.Int64
}
