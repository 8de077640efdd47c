package rdma

import (
	"encoding/binary"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// judge decodes the header of a message, as far as it can be judged without
// knowing what it belongs to. The order of the checks is that of RFC 8166 §4.5:
// length, RDMA_ERROR before the version, version, procedure, lists. h.Prefix is
// set where the message has one, whatever the fault; of an RDMA_ERROR it is all
// that is.
func judge(h *wire.Header, message []byte) Fault {
	p, ok := wire.ParsePrefix(message)
	h.Prefix = p
	switch {
	case !ok:
		return faultShort
	case p.Proc == wire.ProcError:
		// Before the length: ERR_CHUNK is shorter than any header. Before
		// the version: it may be an echo.
		return faultNone
	case len(message) < wire.MinHeader:
		return faultShort
	case p.Version != wire.Version1:
		return faultVersion
	}
	switch p.Proc {
	case wire.ProcDone:
		return faultDone
	case wire.ProcMsg, wire.ProcNoMsg:
	default:
		return faultProcedure
	}
	switch h.Parse(message) {
	case nil:
		return faultNone
	case wire.ErrDiscriminator:
		return faultDiscriminator
	}
	return faultTruncated
}

// received sorts a message into calls, replies, and what is neither.
func (k *connection) received(r *rdmacm.Recv) {
	k.inRun += uint64(len(r.Bytes))
	var h wire.Header
	switch f := judge(&h, r.Bytes); {
	case f != faultNone:
		k.refuse(f, h.Prefix, r)
	case h.Proc == wire.ProcError:
		k.refused(h.Prefix, r)
	case k.isReply(&h, r.Bytes[h.Size:]):
		k.requester.replied(&h, r)
	default:
		k.responder.arrived(&h, r)
	}
}

// refuse answers a message whose header is at fault. RDMA_ERROR answers only what
// cannot be a reply that is waited for.
func (k *connection) refuse(f Fault, p wire.Prefix, r *rdmacm.Recv) {
	if faults[f].answer == answerDrop || k.dialed || k.mayBeReply(f, p, r.Bytes) {
		k.drop(f, p.XID, r)
		return
	}
	k.responder.reject(f, p, r)
}

// mayBeReply says whether a message whose header is at fault may be a reply. Both
// directions choose their XIDs by themselves (RFC 8167 §2.4.1), so that an XID that is
// waited for is not enough: a reply has the version of its call, and no Read list (RFC 8166
// §4.3.1).
func (k *connection) mayBeReply(f Fault, p wire.Prefix, message []byte) bool {
	const readList = wire.PrefixSize
	reads := (f == faultTruncated || f == faultDiscriminator) && binary.BigEndian.Uint32(message[readList:]) == 1
	return f != faultVersion && !reads && k.requester != nil && k.requester.waits(p.XID)
}

// refused takes an RDMA_ERROR, which is never answered (RFC 8166 §4.5).
func (k *connection) refused(p wire.Prefix, r *rdmacm.Recv) {
	body, ok := wire.ParseErrorBody(r.Bytes)
	switch {
	case k.requester == nil:
		k.drop(faultStrayError, p.XID, r)
	case !ok:
		k.drop(faultErrorCode, p.XID, r)
	default:
		k.requester.refused(p, body, r)
	}
}

// isReply tells the direction of a message on a bidirectional connection by its RPC
// message type (RFC 8167 §5), and without a Payload stream by its lists: a call in
// chunks has a Read list, a reply has not (RFC 8166 §4.3.1).
func (k *connection) isReply(h *wire.Header, payload []byte) bool {
	if k.responder == nil {
		return true
	}
	if k.requester == nil { // a reply is no call: the responder says so
		return false
	}
	if h.Proc == wire.ProcNoMsg {
		return h.Reads.Len() == 0 && (k.dialed || k.requester.waits(h.XID))
	}
	return len(payload) >= 8 && binary.BigEndian.Uint32(payload[4:]) == uint32(rpc.TypeReply)
}
