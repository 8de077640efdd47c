package rdma

import (
	"encoding/binary"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// An inbound is a received message: its header, and the Recv that holds its bytes.
type inbound struct {
	wire.Header
	recv *rdmacm.Recv
}

// payload returns the Payload stream that follows the header.
func (m *inbound) payload() []byte { return m.recv.Bytes[m.Size:] }

// judge decodes the header of a message and makes the checks that do not depend on the call
// or reply that it belongs to. The order of the checks is that of RFC 8166 §4.5: length,
// RDMA_ERROR before the version, version, procedure, lists. judge sets the prefix whatever
// the fault, if the message is long enough for it. For an RDMA_ERROR it sets only the
// prefix.
func (m *inbound) judge() Fault {
	p, ok := wire.ParsePrefix(m.recv.Bytes)
	m.Prefix = p
	switch {
	case !ok:
		return faultShort
	case p.Proc == wire.ProcError:
		// This check precedes the length, because ERR_CHUNK is shorter than any header. It
		// precedes the version, because the version may be an echo.
		return faultNone
	case len(m.recv.Bytes) < wire.MinHeader:
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
	switch m.Parse(m.recv.Bytes) {
	case nil:
		return faultNone
	case wire.ErrDiscriminator:
		return faultDiscriminator
	}
	return faultTruncated
}

// received sorts a message into calls, replies and faulty messages.
func (k *connection) received(r *rdmacm.Recv) {
	k.inRun += uint64(len(r.Bytes))
	m := inbound{recv: r}
	switch f := m.judge(); {
	case f != faultNone:
		k.refuse(f, &m)
	case m.Proc == wire.ProcError:
		k.refused(&m)
	case k.isReply(&m):
		k.requester.replied(&m)
	default:
		k.responder.arrived(&m)
	}
}

// refuse answers a message with a faulty header. It sends an RDMA_ERROR only if the message
// cannot be a reply to a pending call.
func (k *connection) refuse(f Fault, m *inbound) {
	if faults[f].answer == answerDrop || k.dialed || k.mayBeReply(f, m) {
		k.drop(f, m)
		return
	}
	k.responder.reject(f, m)
}

// mayBeReply reports whether a message with a faulty header may be a reply. Both directions
// choose their XIDs independently (RFC 8167 §2.4.1), so a pending XID is not proof enough.
// A reply also has the version of its call, and no Read list (RFC 8166 §4.3.1).
func (k *connection) mayBeReply(f Fault, m *inbound) bool {
	const readList = wire.PrefixSize
	reads := (f == faultTruncated || f == faultDiscriminator) && binary.BigEndian.Uint32(m.recv.Bytes[readList:]) == 1
	return f != faultVersion && !reads && k.requester != nil && k.requester.waits(m.XID)
}

// refused processes an RDMA_ERROR, which is never answered (RFC 8166 §4.5).
func (k *connection) refused(m *inbound) {
	body, ok := wire.ParseErrorBody(m.recv.Bytes)
	switch {
	case k.requester == nil:
		k.drop(faultStrayError, m)
	case !ok:
		k.drop(faultErrorCode, m)
	default:
		k.requester.refused(m, body)
	}
}

// isReply determines the direction of a message. On a bidirectional connection the RPC
// message type decides (RFC 8167 §5). If the message has no Payload stream, its lists
// decide: a call in chunks has a Read list, a reply has none (RFC 8166 §4.3.1).
func (k *connection) isReply(m *inbound) bool {
	if k.responder == nil {
		return true
	}
	if k.requester == nil { // if the message is a reply, the responder answers that it is no call
		return false
	}
	if m.Proc == wire.ProcNoMsg {
		return m.Reads.Len() == 0 && (k.dialed || k.requester.waits(m.XID))
	}
	payload := m.payload()
	return len(payload) >= 8 && binary.BigEndian.Uint32(payload[4:]) == uint32(rpc.TypeReply)
}
