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
	// Discarded messages were neither served nor answered.
	Discarded atomic.Int64
	// faults are all of these, and the connections that were ended, by reason.
	faults [faultCount]atomic.Int64

	// Bytes by their way.
	BytesInlineIn, BytesInlineOut atomic.Int64
	BytesRead                     atomic.Int64 // RDMA Read, position-zero chunks included
	BytesWritten                  atomic.Int64 // Write chunks
	BytesReplyChunk               atomic.Int64
	// Invalidated replies named an STag to invalidate.
	Invalidated atomic.Int64

	// Answers are replies to this side's calls, Refused the RDMA_ERRORs.
	Answers, Refused atomic.Int64
}

// Count is how often there was a fault.
func (s *Stats) Count(f Fault) int64 { return s.faults[f].Load() }

// Timeouts are connections lost because the peer took no part.
func (s *Stats) Timeouts() int64 { return s.Count(faultStalled) + s.Count(faultUnanswered) }

// Overruns are connections lost because the peer made more calls than it was
// granted.
func (s *Stats) Overruns() int64 { return s.Count(faultOverrun) }

// FailedWork are connections lost because an RDMA operation failed.
func (s *Stats) FailedWork() int64 { return s.Count(faultOperation) + s.Count(faultFence) }
