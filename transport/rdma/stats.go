package rdma

import "sync/atomic"

// Stats counts the work of the connections of a Server or Client. All fields except
// Connections only grow.
type Stats struct {
	// Connections is the present number of connections; a server also counts those that are being
	// set up. Accepted is the number of connections set up since the start.
	Connections, Accepted atomic.Int64

	// Calls and Replies count the calls that the responder received and the replies that it sent.
	// LongCalls counts the calls in a Position-Zero Read chunk, LongReplies the replies in a Reply
	// chunk.
	Calls, LongCalls, Replies, LongReplies atomic.Int64
	// ReadsDeferred counts calls that requested memory only after RDMA Reads of other calls had
	// completed (readClaim).
	ReadsDeferred atomic.Int64
	// Held counts calls that waited in their receive buffers: because memory was short, or because
	// calls of their client occupied too much memory.
	Held atomic.Int64
	// Dropped counts calls that the responder dropped without an answer.
	Dropped atomic.Int64
	// ErrVers and ErrChunk count the RDMA_ERRORs that were sent with these codes.
	ErrVers, ErrChunk atomic.Int64
	// Discarded counts messages that were neither served nor answered.
	Discarded atomic.Int64
	versions  versionStats
	// faults has the number of occurrences of each Fault.
	faults [mostFaults]atomic.Int64

	// BytesInlineIn and BytesInlineOut count the bytes of calls and replies that the responder
	// received and sent inline, headers included. The other Bytes fields count bytes moved by RDMA.
	BytesInlineIn, BytesInlineOut atomic.Int64
	BytesRead                     atomic.Int64 // RDMA Read, position-zero chunks included
	BytesWritten                  atomic.Int64 // Write chunks
	BytesReplyChunk               atomic.Int64
	// Invalidated counts replies that named an STag to invalidate.
	Invalidated atomic.Int64

	// Answers counts the replies to this side's calls, and Refused the RDMA_ERRORs that
	// answered such calls.
	Answers, Refused atomic.Int64
}

// Count returns the number of times that a fault occurred.
func (s *Stats) Count(f Fault) int64 { return s.faults[f].Load() }

// Timeouts counts the connections that this side ended because the peer took no data, sent no data
// that was asked for, or did not answer a call in time.
func (s *Stats) Timeouts() int64 { return s.Count(faultStalled) + s.Count(faultUnanswered) }

// Overruns counts the connections that this side ended because the peer made more calls than its
// credits allow.
func (s *Stats) Overruns() int64 { return s.Count(faultOverrun) }

// FailedWork counts the connections that ended because an RDMA operation failed, or because the
// access of the peer to memory could not be revoked.
func (s *Stats) FailedWork() int64 { return s.Count(faultOperation) + s.Count(faultFence) }
