package rdma

import (
	"iter"
	"net/netip"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// A Fault is a reason why a message is not served, or why its connection is
// ended. All that is known of one stands in one row of the table faults: the
// code that finds a fault says which it is, and no more.
type Fault uint8

// The faults, in the order in which a message can have them.
const (
	faultNone Fault = iota

	// The header, whatever it belongs to.
	faultShort
	faultVersion
	faultDone
	faultProcedure
	faultTruncated
	faultDiscriminator

	// The header of a call.
	faultNoChunks
	faultWraps
	faultEcho
	faultPosition
	faultTooMuch
	faultTwoPayloads
	faultNoPayload
	faultNoReads
	faultFailedBefore

	// A call.
	faultXID
	faultNotACall
	faultIneligible
	faultTooLarge
	faultResult
	faultNoRoom
	faultDraining

	// A reply, or the RDMA_ERROR that stands for one.
	faultStrayReply
	faultLateReply
	faultReplyReads
	faultReplyLists
	faultReplyMessage
	faultStrayError
	faultErrorCode

	// A connection.
	faultInvalidation
	faultOverrun
	faultStalled
	faultUnanswered
	faultStarved
	faultOperation
	faultFence
	faultProgram

	faultCount
)

// An Answer is what a peer gets for a Fault.
type Answer uint8

// The answers. A message that may be a reply is dropped where the table has an
// RDMA_ERROR, for only calls get that (RFC 8166 §4.5).
const (
	// answerDrop: nothing. The receive that the message used is promised anew.
	answerDrop Answer = iota
	// answerVers and answerChunk: an RDMA_ERROR with ERR_VERS or ERR_CHUNK.
	answerVers
	answerChunk
	// answerClose: the end of the connection.
	answerClose
)

// String names the answer as RFC 8166 does.
func (a Answer) String() string {
	return [...]string{"drop", "ERR_VERS", "ERR_CHUNK", "close"}[a]
}

// faults says for each fault what its counter is called, what the peer gets, what
// happened, and where a standard has the rule. Rules without a section are this
// implementation's own.
var faults = [faultCount]struct {
	name    string
	answer  Answer
	text    string
	section string
}{
	faultNone: {"none", answerDrop, "no fault", ""},

	faultShort:         {"short_message", answerDrop, "the message is shorter than the shortest header", "RFC 8166 §4.5"},
	faultVersion:       {"version", answerVers, "the version is not supported", "RFC 8166 §4.5.1"},
	faultDone:          {"rdma_done", answerDrop, "RDMA_DONE has no meaning any more", "RFC 8166 §4.6.2"},
	faultProcedure:     {"procedure", answerChunk, "rdma_proc is none that is served", "RFC 8166 §4.5.2"},
	faultTruncated:     {"truncated_list", answerChunk, "a chunk list reaches beyond the message", "RFC 8166 §4.5.2"},
	faultDiscriminator: {"discriminator", answerChunk, "the discriminator of a chunk list is neither 0 nor 1", "RFC 8166 §4.5.2"},

	faultNoChunks:     {"chunks_not_served", answerChunk, "this end of the connection serves no calls with chunks", "RFC 8167 §5.3"},
	faultWraps:        {"segment_wraps", answerChunk, "a segment reaches beyond the last offset", "RFC 8166 §4.5.2"},
	faultEcho:         {"reply_header_too_long", answerChunk, "the header that returns the chunks does not fit a Send", "RFC 8166 §4.3.2"},
	faultPosition:     {"unaligned_position", answerChunk, "the position of a Read chunk is no multiple of four", "RFC 8166 §3.4.5"},
	faultTooMuch:      {"read_list_too_large", answerChunk, "the Read list moves more than any call may", "RFC 8166 §8.1.4"},
	faultTwoPayloads:  {"two_payloads", answerChunk, "RDMA_MSG has a Position-Zero Read chunk", "RFC 8166 §4.5.2"},
	faultNoPayload:    {"no_payload", answerChunk, "neither the message nor a Position-Zero Read chunk holds the call", "RFC 8166 §4.2.4"},
	faultNoReads:      {"reads_impossible", answerChunk, "the peer answers no RDMA Reads on this connection", "RFC 8166 §3.3.1"},
	faultFailedBefore: {"failed_before", answerChunk, "an RDMA operation of this call broke the last connection", "RFC 8166 §4.5.3"},

	faultXID:        {"xid_mismatch", answerChunk, "the call has another XID than its header", "RFC 8166 §4.5.2"},
	faultNotACall:   {"not_a_call", answerChunk, "the message is no RPC call", "RFC 8166 §4.5.2"},
	faultIneligible: {"chunk_not_eligible", answerChunk, "a Read chunk holds what may not be reduced, or more than the procedure takes", "RFC 8166 §6.1"},
	faultTooLarge:   {"exceeds_memory", answerChunk, "the call needs more memory than this server gives to one", "RFC 8166 §8.1.4"},
	faultResult:     {"write_chunk_too_small", answerChunk, "a result is longer than its Write chunk", "RFC 8166 §4.3.2"},
	faultNoRoom:     {"reply_too_large", answerChunk, "the reply fits neither a Send nor the Reply chunk", "RFC 8166 §4.3.3"},
	faultDraining:   {"draining", answerDrop, "the connection takes no more calls, for the server ends", ""},

	faultStrayReply:   {"stray_reply", answerDrop, "no call waits for this reply", "RFC 8166 §4.5"},
	faultLateReply:    {"late_reply", answerDrop, "the call of this reply was given up", "RFC 8166 §8.1.4"},
	faultReplyReads:   {"reply_with_read_list", answerDrop, "a reply has a Read list", "RFC 8166 §4.3.1"},
	faultReplyLists:   {"reply_lists", answerDrop, "the reply does not return the chunks that the call offered", "RFC 8166 §3.4.6"},
	faultReplyMessage: {"reply_message", answerDrop, "what the reply's header announces is no reply to its call", "RFC 8166 §4.2.1"},
	faultStrayError:   {"stray_error", answerDrop, "no call waits for this RDMA_ERROR", "RFC 8166 §4.2.4"},
	faultErrorCode:    {"error_undecodable", answerDrop, "the RDMA_ERROR cannot be decoded", "RFC 8166 §4.5"},

	faultInvalidation: {"foreign_invalidation", answerClose, "a reply invalidated memory of another call", "RFC 8797 §4.1"},
	faultOverrun:      {"overrun", answerClose, "the peer made more calls than it was granted credits", "RFC 8166 §3.3.1"},
	faultStalled:      {"stalled", answerClose, "the peer took nothing of what was sent, or brought nothing of what was asked for, for too long", ""},
	faultUnanswered:   {"unanswered", answerClose, "the peer answered no call in time", "RFC 8166 §4.5"},
	faultStarved:      {"starved", answerClose, "memory is short and the peer moved too little", ""},
	faultOperation:    {"failed_operation", answerClose, "an RDMA operation failed", "RFC 8166 §4.5.4"},
	faultFence:        {"failed_fence", answerClose, "memory of a call that ended could not be taken from the peer", "RFC 8166 §4.5.4"},
	faultProgram:      {"program", answerClose, "the program that was called ended the connection", ""},
}

// String is the name of the fault's counter.
func (f Fault) String() string { return faults[f].name }

// Error says what happened, and where the rule stands.
func (f Fault) Error() string {
	row := &faults[f]
	if row.section == "" {
		return row.text
	}
	return row.text + " (" + row.section + ")"
}

// Faults are all that are counted.
func Faults() iter.Seq[Fault] {
	return func(yield func(Fault) bool) {
		for f := faultNone + 1; f < faultCount; f++ {
			if !yield(f) {
				return
			}
		}
	}
}

// refusals are the faults that the rpc package finds.
var refusals = [...]Fault{
	rpc.RefuseNotACall: faultNotACall,
	rpc.RefuseChunk:    faultIneligible,
	rpc.RefuseRoom:     faultNoRoom,
}

// An Event tells of one Fault.
type Event struct {
	Peer   netip.AddrPort
	Fault  Fault
	Answer Answer
	// XID is that of the message; 0 where a connection is at fault, or where
	// the message is too short to have one.
	XID uint32
}

// note counts a fault and tells of it. No lock is held.
func (k *connection) note(f Fault, a Answer, xid uint32) {
	k.stats.faults[f].Add(1)
	switch a {
	case answerDrop:
		k.stats.Discarded.Add(1)
	case answerVers:
		k.stats.ErrVers.Add(1)
	case answerChunk:
		k.stats.ErrChunk.Add(1)
	}
	if k.event != nil {
		k.event(Event{Peer: k.device.Peer(), Fault: f, Answer: a, XID: xid})
	}
}

// drop forgets a message: no answer, no disconnect, the receive promised anew.
func (k *connection) drop(f Fault, xid uint32, r *rdmacm.Recv) {
	r.Release()
	k.device.Provide(1, k.receiveSize)
	k.note(f, answerDrop, xid)
}

// end ends the connection for a fault; why says more of it.
func (k *connection) end(f Fault, why error) {
	k.note(f, answerClose, 0)
	k.device.Abort(why)
}
