package rdma

import (
	"iter"
	"net/netip"

	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// A Fault is a reason not to serve a message, or to end its connection. It is an index in the table
// faults: code that finds a fault only names it.
type Fault uint8

// faultNone is no fault.
const faultNone Fault = 0

// An Answer is this side's response to a Fault.
type Answer uint8

// The answers. If the table has an RDMA_ERROR as the answer to a message that may be a reply, this
// side drops the message instead, because only calls get an RDMA_ERROR (RFC 8166 §4.5).
const (
	// answerDrop: the message is discarded without an answer.
	answerDrop Answer = iota
	// answerVers and answerChunk: an RDMA_ERROR with ERR_VERS or ERR_CHUNK.
	answerVers
	answerChunk
	// answerClose: the connection is ended.
	answerClose
	// answerError: an RDMA2_ERROR of version 2 (version2.go says with which code).
	answerError
)

// String returns the name of the answer. For an RDMA_ERROR, it is the name of the error code in RFC
// 8166.
func (a Answer) String() string {
	return [...]string{"drop", "ERR_VERS", "ERR_CHUNK", "close", "RDMA2_ERROR"}[a]
}

// faults lists for each fault the name of its counter, the answer to the peer, a
// description, and the section of the standard that has the rule. A rule without a section
// is this implementation's own.
var faults = []faultRow{{"none", answerDrop, "no fault", ""}}

type faultRow struct {
	name    string
	answer  Answer
	text    string
	section string
}

// mostFaults is the largest number of rows.
const mostFaults = 48

// newFault adds a row to the table.
func newFault(name string, answer Answer, text, section string) Fault {
	faults = append(faults, faultRow{name, answer, text, section})
	return Fault(len(faults) - 1)
}

// The faults. Those in headers are in the order of their checks.
var (
	// Faults in the header of any message.
	faultShort         = newFault("short_message", answerDrop, "the message is shorter than the shortest header", "RFC 8166 §4.5")
	faultVersion       = newFault("version", answerVers, "the version is not supported", "RFC 8166 §4.5.1")
	faultDone          = newFault("rdma_done", answerDrop, "RDMA_DONE has no meaning any more", "RFC 8166 §4.6.2")
	faultProcedure     = newFault("procedure", answerChunk, "rdma_proc is none that is served", "RFC 8166 §4.5.2")
	faultTruncated     = newFault("truncated_list", answerChunk, "a chunk list reaches beyond the message", "RFC 8166 §4.5.2")
	faultDiscriminator = newFault("discriminator", answerChunk, "the discriminator of a chunk list is neither 0 nor 1", "RFC 8166 §4.5.2")

	// Faults in the header of a call.
	faultNoChunks     = newFault("chunks_not_served", answerChunk, "this end of the connection serves no calls with chunks", "RFC 8167 §5.3")
	faultWraps        = newFault("segment_wraps", answerChunk, "a segment reaches beyond the last offset", "RFC 8166 §4.5.2")
	faultEcho         = newFault("reply_header_too_long", answerChunk, "the header that returns the chunks does not fit a Send", "RFC 8166 §4.3.2")
	faultPosition     = newFault("unaligned_position", answerChunk, "the position of a Read chunk is no multiple of four", "RFC 8166 §3.4.5")
	faultTooMuch      = newFault("read_list_too_large", answerChunk, "the Read list moves more than any call may", "RFC 8166 §8.1.4")
	faultTwoPayloads  = newFault("two_payloads", answerChunk, "RDMA_MSG has a Position-Zero Read chunk", "RFC 8166 §4.5.2")
	faultNoPayload    = newFault("no_payload", answerChunk, "neither the message nor a Position-Zero Read chunk holds the call", "RFC 8166 §4.2.4")
	faultNoReads      = newFault("reads_impossible", answerChunk, "the peer answers no RDMA Reads on this connection", "RFC 8166 §3.3.1")
	faultFailedBefore = newFault("failed_before", answerChunk, "an RDMA operation of this call broke the last connection", "RFC 8166 §4.5.3")

	// Faults of a call that are found after the checks of its header.
	faultXID        = newFault("xid_mismatch", answerChunk, "the call has another XID than its header", "RFC 8166 §4.5.2")
	faultNotACall   = newFault("not_a_call", answerChunk, "the message is no RPC call", "RFC 8166 §4.5.2")
	faultIneligible = newFault("chunk_not_eligible", answerChunk, "a Read chunk holds what may not be reduced, or more than the procedure takes", "RFC 8166 §6.1")
	faultTooLarge   = newFault("exceeds_memory", answerChunk, "the call needs more memory than this server gives to one", "RFC 8166 §8.1.4")
	faultResult     = newFault("write_chunk_too_small", answerChunk, "a result is longer than its Write chunk", "RFC 8166 §4.3.2")
	faultNoRoom     = newFault("reply_too_large", answerChunk, "the reply fits neither a Send nor the Reply chunk", "RFC 8166 §4.3.3")
	faultDraining   = newFault("draining", answerDrop, "the connection takes no more calls, for the server ends", "")

	// Faults of a reply, or of the RDMA_ERROR in its place.
	faultStrayReply   = newFault("stray_reply", answerDrop, "no call waits for this reply", "RFC 8166 §4.5")
	faultLateReply    = newFault("late_reply", answerDrop, "the call of this reply was given up", "RFC 8166 §8.1.4")
	faultReplyReads   = newFault("reply_with_read_list", answerDrop, "a reply has a Read list", "RFC 8166 §4.3.1")
	faultReplyLists   = newFault("reply_lists", answerDrop, "the reply does not return the chunks that the call offered", "RFC 8166 §3.4.6")
	faultReplyMessage = newFault("reply_message", answerDrop, "the RPC message of the reply does not answer its call", "RFC 8166 §4.2.1")
	faultStrayError   = newFault("stray_error", answerDrop, "no call waits for this RDMA_ERROR", "RFC 8166 §4.2.4")
	faultErrorCode    = newFault("error_undecodable", answerDrop, "the RDMA_ERROR cannot be decoded", "RFC 8166 §4.5")

	// Faults that only version 2 has. Its responder answers each fault of a call with an RDMA2_ERROR.
	faultMismatch     = newFault("version_mismatch", answerError, "the version is not that of the connection", "rpcrdma-version-two-07 §7.1.2")
	faultHeaderType   = newFault("header_type", answerError, "rdma_htype is none that this end serves", "rpcrdma-version-two-07 §7.1.3")
	faultContinuation = newFault("continuation", answerError, "the message breaks the order of messages", "rpcrdma-version-two-07 §7.1.4")
	faultBrokenRun    = newFault("broken_run", answerDrop, "the message is a part of an RPC message that has failed", "rpcrdma-version-two-07 §7.1.4")
	faultHeader       = newFault("header_undecodable", answerError, "the header cannot be decoded", "rpcrdma-version-two-07 §7.2.1")
	faultProperty     = newFault("property", answerError, "the value of a transport property cannot be decoded", "rpcrdma-version-two-07 §7.2.2")
	faultReadChunks   = newFault("too_many_read_chunks", answerError, "the call has too many Read chunks", "rpcrdma-version-two-07 §7.3.1")
	faultWriteChunks  = newFault("too_many_write_chunks", answerError, "the call has too many Write chunks", "rpcrdma-version-two-07 §7.3.2")
	faultSegments     = newFault("too_many_segments", answerError, "the call has too many segments", "rpcrdma-version-two-07 §7.3.3")

	// Faults that end the connection.
	faultInvalidation = newFault("foreign_invalidation", answerClose, "a reply invalidated memory of another call", "RFC 8797 §4.1")
	faultOverrun      = newFault("overrun", answerClose, "the peer made more calls than it was granted credits", "RFC 8166 §3.3.1")
	faultStalled      = newFault("stalled", answerClose, "the peer took nothing of what was sent, or brought nothing of what was asked for, for too long", "")
	faultUnanswered   = newFault("unanswered", answerClose, "the peer answered no call in time", "RFC 8166 §4.5")
	faultRefused      = newFault("version_refused", answerClose, "the peer refused version 2, or a header type that calls need", "rpcrdma-version-two-07 §7.1")
	faultStarved      = newFault("starved", answerClose, "memory is short and the peer moved too little", "")
	faultOperation    = newFault("failed_operation", answerClose, "an RDMA operation failed", "RFC 8166 §4.5.4")
	faultFence        = newFault("failed_fence", answerClose, "memory of a call that ended could not be taken from the peer", "RFC 8166 §4.5.4")
	faultProgram      = newFault("program", answerClose, "the program that was called ended the connection", "")
)

// String is the name of the fault's counter.
func (f Fault) String() string { return faults[f].name }

// Error describes the fault, and names the section of the standard that has the rule.
func (f Fault) Error() string {
	row := &faults[f]
	if row.section == "" {
		return row.text
	}
	return row.text + " (" + row.section + ")"
}

// Faults returns all Faults except faultNone.
func Faults() iter.Seq[Fault] {
	return func(yield func(Fault) bool) {
		for f := range faults[1:] {
			if !yield(Fault(f + 1)) {
				return
			}
		}
	}
}

// refusals has the Fault for each reason for which package rpc refuses a call.
var refusals = [...]Fault{
	rpc.RefuseNotACall: faultNotACall,
	rpc.RefuseChunk:    faultIneligible,
	rpc.RefuseRoom:     faultNoRoom,
}

// An Event reports one Fault.
type Event struct {
	Peer   netip.AddrPort
	Fault  Fault
	Answer Answer
	// XID is the message's XID. It is 0 if the fault concerns the whole connection, or if the
	// message is too short to have one.
	XID uint32
	// Version is the version of the connection; 0 on the side of a client, and before the client's first
	// message has decided it.
	Version int
}

// note counts a fault and reports its Event. The caller holds no lock.
func (m *messages) note(f Fault, a Answer, xid uint32) {
	m.stats.faults[f].Add(1)
	switch a {
	case answerDrop:
		m.stats.Discarded.Add(1)
	case answerVers:
		m.stats.ErrVers.Add(1)
	case answerChunk:
		m.stats.ErrChunk.Add(1)
	}
	if m.event != nil {
		m.event(Event{Peer: m.device.Peer(), Fault: f, Answer: a, XID: xid, Version: int(m.version.Load())})
	}
}

// drop discards a message: it sends no answer, keeps the connection, and makes this side ready to
// receive another message in its place.
func (m *messages) drop(f Fault, in *inbound) {
	in.recv.Release()
	m.framing.discard()
	m.note(f, answerDrop, in.xid)
}

// endConnection ends the connection because of the fault f. The device gets the error why.
func (m *messages) endConnection(f Fault, why error) {
	m.note(f, answerClose, 0)
	m.device.Abort(why)
}
