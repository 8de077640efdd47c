package rdma

import (
	"encoding/binary"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// version1 is the framing of RPC-over-RDMA version 1 (RFC 8166). Its credits count calls (see
// requester.go). Each message that this side sends permits the peer to send one: after a call its
// reply, after a reply the next call.
type version1 struct{ k *connection }

// read implements framing. It passes a message with a faulty header to the responder if the responder
// has to answer it.
func (v version1) read(r *rdmacm.Recv) inbound {
	var h wire.Header
	f := judge(&h, r.Bytes)
	m := inbound{recv: r, fault: f, xid: h.XID, version: h.Version, credits: h.Credits}
	switch {
	case f != faultNone:
		if faults[f].answer != answerDrop && !v.k.dialed && !v.mayBeReply(&m) {
			m.kind = kindCall
		}
		return m
	case h.Proc == wire.ProcError:
		m.kind = kindError
		if body, ok := wire.ParseErrorBody(r.Bytes); ok {
			m.refusal = &RefusedError{body}
		}
		return m
	}
	m.external = h.Proc == wire.ProcNoMsg
	m.reads, m.offer, m.size = h.Reads, h.Offer, h.Size
	if v.isReply(&m) {
		m.kind = kindReply
		return m
	}
	m.kind = kindCall
	if m.size > wire.MinHeader {
		m.wraps = h.Wraps()
		if v.k.invalidate {
			m.invalidate, _ = h.SoleHandle()
		}
	}
	return m
}

// judge decodes the header of a message and makes the checks that do not depend on the call or
// reply that it belongs to. The order of the checks is that of RFC 8166 §4.5: length, RDMA_ERROR,
// version, procedure, lists. If the message is long enough, judge sets h.Prefix, even if it finds a
// fault. For an RDMA_ERROR it sets nothing else.
func judge(h *wire.Header, message []byte) Fault {
	p, ok := wire.ParsePrefix(message)
	h.Prefix = p
	switch {
	case !ok:
		return faultShort
	case p.Proc == wire.ProcError:
		// An RDMA_ERROR is accepted before the length is checked, because with ERR_CHUNK it is
		// shorter than other headers. It is accepted before the version is checked, because the
		// peer may have copied the version from a faulty message.
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

// mayBeReply reports whether a message with a faulty header may be a reply. Both directions
// choose their XIDs independently (RFC 8167 §2.4.1), so a pending XID is not proof enough.
// A reply also has the version of its call, and no Read list (RFC 8166 §4.3.1).
func (v version1) mayBeReply(m *inbound) bool {
	const readList = wire.PrefixSize
	reads := (m.fault == faultTruncated || m.fault == faultDiscriminator) && binary.BigEndian.Uint32(m.recv.Bytes[readList:]) == 1
	return m.fault != faultVersion && !reads && v.k.requester != nil && v.k.requester.waits(m.xid)
}

// isReply determines the direction of a message. On a bidirectional connection the RPC message type
// decides (RFC 8167 §5). If the Payload stream is not inline, the lists decide: a call in chunks
// has a Read list, a reply has none (RFC 8166 §4.3.1). If the peer opened the connection, a reply
// also has the XID of a pending call.
func (v version1) isReply(m *inbound) bool {
	k := v.k
	if k.responder == nil {
		return true
	}
	if k.requester == nil { // a reply is a fault then, which the responder answers
		return false
	}
	if m.external {
		return m.reads.Len() == 0 && (k.dialed || k.requester.waits(m.xid))
	}
	payload := m.payload()
	return len(payload) >= 8 && binary.BigEndian.Uint32(payload[4:]) == uint32(rpc.TypeReply)
}

// replySize implements framing. Every reply returns the whole Write list and the Reply chunk (RFC 8166
// §4.3).
func (version1) replySize(m *inbound, _ bool) int { return m.offer.ReplySize() }

func (v version1) putReply(head []byte, m *inbound, r returned) {
	p := wire.Prefix{XID: m.xid, Version: wire.Version1, Credits: v.k.responder.credits(), Proc: wire.ProcMsg}
	replied := uint64(0)
	if r.external {
		p.Proc, replied = wire.ProcNoMsg, uint64(r.length)
	}
	m.offer.PutReply(head, p, r.used, replied)
}

// putError implements framing. The RDMA_ERROR has the XID and the version of the message, even if the
// version is not supported (RFC 8166 §4.5).
func (v version1) putError(o *outbound, m *inbound, f Fault) Answer {
	code := wire.ErrChunk
	if faults[f].answer == answerVers {
		code = wire.ErrVers
	}
	o.setHeaderSize(wire.MaxErrorSize)
	p := wire.Prefix{XID: m.xid, Version: m.version, Credits: v.k.responder.credits()}
	if f == faultVersion && m.version == wire.Version2 && v.k.version2 {
		// This side knows the version, but it is not that of the connection (version 2, §7.1.2).
		n := wire.ErrorBody2{Code: wire.Err2VersMismatch}.Put(o.head, wire.Prefix2{XID: m.xid, Version: m.version, Limit: p.Credits})
		o.setHeaderSize(n)
		o.invalidate = 0
		v.k.stats.versions.mismatches.Add(1)
		return answerError
	}
	n := wire.ErrorBody{Code: code, Low: wire.Version1, High: v.k.newest()}.Put(o.head, p)
	o.setHeaderSize(n)
	o.invalidate = 0
	return faults[f].answer
}

func (version1) callSize(l *wire.Lists, _ bool) int { return wire.PrefixSize + l.Size() }

// answerSize implements framing. The reply returns the Write list and the Reply chunk, so its header is
// as long as that of the call without its Read list.
func (version1) answerSize(l *wire.Lists) int {
	return wire.PrefixSize + l.Size() - len(l.Reads)*wire.ReadSegmentSize
}

func (version1) putCall(head []byte, xid uint32, l *wire.Lists, requested uint32, external bool) {
	p := wire.Prefix{XID: xid, Version: wire.Version1, Credits: requested, Proc: wire.ProcMsg}
	if external {
		p.Proc = wire.ProcNoMsg
	}
	p.Put(head)
	l.Put(head[wire.PrefixSize:])
}

func (version1) longest(header, limit, _ int) int { return limit - header }

// post implements framing. RFC 8166 §3.3.1 requires that this side is ready before it sends.
func (v version1) post(o *outbound) bool {
	v.k.promise(1)
	return v.k.send(o)
}

func (v version1) discard() { v.k.promise(1) }

func (v version1) permit(n int) { v.k.promise(n) }

func (version1) mayCall() bool { return true }

func (version1) closed() {}

// A RefusedError is an RDMA_ERROR that answered a call. It is permanent: the peer would
// refuse the same call again (RFC 8166 §4.5).
type RefusedError struct {
	wire.ErrorBody
}

func (e *RefusedError) Error() string {
	return "rdma: peer refused the call with " + e.Code.String()
}
