package rdma

import (
	"errors"
	"fmt"
	"slices"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// read implements framing. The order of the checks: the credits, the length, the version, the type, the
// order of messages, the rest of the header.
func (v *version2) read(r *rdmacm.Recv) (m inbound) {
	m.recv, m.kind, m.credits = r, kindDone, noLimit
	p, ok := wire.ParsePrefix2(r.Bytes)
	m.xid, m.version = p.XID, p.Version
	f := faultShort
	if ok {
		f = versionFault(p)
	}
	if v.decided != nil && ok {
		if v.refusedVersion(p, r.Bytes) {
			r.Release()
			return m
		}
		if f == faultNone {
			defer v.settle()()
		}
	}
	var about refusedKind
	if f == faultNone && p.Type == wire.TypeError {
		about = v.refusedBy(p, r.Bytes)
	}
	if over := v.arrive(p, f == faultNone, about == refusedCall); over > 1 { // one more is tolerated, for a grant (§4.2.1.1)
		r.Release()
		v.k.endConnection(faultOverrun, fmt.Errorf("%w: %d messages", errOverrun, over))
		return m
	}
	switch {
	case f == faultShort:
		drop(&m, f)
	case f != faultNone:
		v.refuse(&m, p, f)
	case !p.Type.Known():
		v.refuse(&m, p, faultHeaderType)
	case !v.sequence.Plain(p) && !v.inOrder(&m, p):
	case p.Type.IsCall():
		v.readCall(&m, p)
	case p.Type.IsReply():
		v.readReply(&m, p)
	case p.Type.IsConnprop():
		v.properties(&m, p)
	case p.Type == wire.TypeGrant:
		r.Release()
		v.forgive(false, false)
	case about == refusedReply:
		drop(&m, faultStrayError)
	default:
		m.kind = kindError
		if body, ok := wire.ParseErrorBody2(r.Bytes); ok {
			m.refusal = &Refused2Error{body}
			if v.renounce(&m, body.Code, about) {
				m.kind = kindDone
			}
		}
	}
	return m
}

// inOrder reports whether a message is in order. If not, it drops or refuses the message.
func (v *version2) inOrder(m *inbound, p wire.Prefix2) bool {
	v.expire()
	step := v.sequence.Admit(p)
	ended := step.Interrupted && v.interrupted(step)
	switch {
	case step.Drop:
		drop(m, faultBrokenRun)
	case step.Refused() && p.Type.IsReply():
		v.brokenReply(m, ended)
	case step.Refused() && ended:
		m.recv.Release()
		v.sendError(m, faultContinuation, 0) // this message takes the place of the reply
	case step.Refused():
		v.refuse(m, p, faultContinuation)
	default:
		return true
	}
	return false
}

// versionFault returns the fault of a message whose version is not 2, or faultNone.
func versionFault(p wire.Prefix2) Fault {
	if p.Version == wire.Version2 {
		return faultNone
	}
	if p.JudgeVersion(wire.Version2, wire.Version1, wire.Version2).Answer.Code == wire.Err2Vers {
		return faultVersion
	}
	return faultMismatch // or an error about a message that this side has not sent
}

// arrive counts a message of the peer. The second message of a client shows that the client has this side's limit
// (§4.3). If believed is true, the message has version 2, and arrive also applies the limit in it, and takes the steps of
// the set-up that are due with the peer's first messages. refuses is true if the message is an RDMA2_ERROR that ends a
// call. The result is that of credits2.take.
func (v *version2) arrive(p wire.Prefix2, believed, refuses bool) (over int32) {
	v.mu.Lock()
	v.messages.received++
	over = v.take()
	v.released = v.released || v.received > 1 && !v.k.dialed
	if !believed || over > 1 {
		v.mu.Unlock()
		return over
	}
	v.limit = p.Limit
	switch p.Type {
	case wire.TypeReplyInline, wire.TypeReplyExternal, wire.TypeError:
		if refuses || p.Type != wire.TypeError {
			v.answered()
		}
		v.owed = v.owed || v.starved() // an answer brings the peer no credit: its call has done that
	case wire.TypeCallMiddle, wire.TypeCallInline, wire.TypeCallExternal:
		v.alone = 2 // the client is ready for its answer
	}
	blocked := v.blocked
	v.blocked = false
	ready := v.waiting > 0 || v.owed
	v.mu.Unlock()
	if !v.announced {
		permits := 0
		if p.Type.IsConnprop() {
			permits = 1 // the server's properties are the answer to the client's
		}
		v.announce(permits)
	}
	if v.unapplied {
		v.apply()
	}
	if ready {
		v.kick()
	}
	if blocked {
		v.resume()
	}
	return over
}

// A refusedKind says what an RDMA2_ERROR refuses.
type refusedKind uint8

const (
	refusedOther refusedKind = iota // no call of this side that waits
	refusedCall
	refusedReply
)

// refusedBy says what an RDMA2_ERROR refuses. The error names an XID, but no direction (§7), and a call of this side and
// a reply to the peer may have the same one. A peer takes exception to the order of messages (INVAL_CONT) only if an
// RPC message came in several Sends (§6.3.6, §6.3.9). So if the reply did, the reply is meant: a client sends no
// replies in parts, and a server no calls (call.longest, backchannel). All other errors are about calls.
func (v *version2) refusedBy(p wire.Prefix2, message []byte) refusedKind {
	body, ok := wire.ParseErrorBody2(message)
	switch q := v.k.requester; {
	case !ok || q == nil:
	case body.Code == wire.Err2InvalCont && v.repliedInParts(p.XID):
		return refusedReply
	case q.waits(p.XID):
		return refusedCall
	}
	return refusedOther
}

// repliedInParts reports whether this side has lately sent a reply with this XID in parts, and forgets that.
func (v *version2) repliedInParts(xid uint32) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if i := slices.Index(v.inParts[:], partedReply{xid, true}); i >= 0 {
		v.inParts[i].sent = false
		return true
	}
	return false
}

// resume lets the requester send calls for which there were no credits.
func (v *version2) resume() {
	if q := v.k.requester; q != nil {
		q.resume()
	}
}

// drop makes m a message that is discarded because of f.
func drop(m *inbound, f Fault) { m.kind, m.fault = kindDrop, f }

// refuse makes m a message that is answered with an RDMA2_ERROR. An RDMA2_ERROR is answered only if it stands between
// the parts of an RPC message. A message of another version is no grant, whatever its header type is. The responder
// answers what may be a call. The framing itself answers other messages, and it ends the connection of a peer that takes
// none of these answers (mostErrands).
func (v *version2) refuse(m *inbound, p wire.Prefix2, f Fault) {
	switch {
	case f != faultContinuation && p.Type == wire.TypeError:
		drop(m, f)
	case v.k.responder != nil && !p.Type.IsReply() && p.Type != wire.TypeCallMiddle:
		m.kind, m.fault = kindCall, f
	default:
		m.recv.Release()
		v.sendError(m, f, 1)
	}
}

// mostErrands is how many errors of the framing itself may wait for the peer.
const mostErrands = 16

// sendError sends an RDMA2_ERROR that refuses m. With it the peer may send permits more messages.
func (v *version2) sendError(m *inbound, f Fault, permits int) {
	if v.errands.Add(1) > mostErrands {
		v.k.endConnection(faultStalled, errNoCredits)
		return
	}
	o := new(outbound)
	o.init(wire.MaxError2Size, func(error, int) { v.errands.Add(-1) })
	o.permits = permits
	v.k.note(f, v.putError(o, m, f), m.xid)
	if v.send(o) {
		v.errands.Add(-1)
	}
}

// interrupted forgets the parts of an RPC message, because another message came before its end. Unless the
// refusal of that message does, interrupted tells the peer that the RPC message will not be served. The result
// is true if it was a reply, and its call has ended.
func (v *version2) interrupted(s wire.Step) bool {
	v.endRun()
	if s.Inform {
		v.sendError(&inbound{xid: s.XID, version: wire.Version2}, faultContinuation, 0)
	}
	return s.Reply && v.failReply(s.XID)
}

// readCall decodes the header of a call.
func (v *version2) readCall(m *inbound, p wire.Prefix2) {
	if v.k.responder == nil {
		v.sequence.Fail(p)
		v.refuse(m, p, faultHeaderType)
		return
	}
	if p.Type.IsMiddle() {
		v.readPart(m, p)
		return
	}
	m.kind = kindCall
	if p.Type == wire.TypeCallInline {
		var ok bool
		if m.offer, m.size, ok = wire.ParseChunkless2(m.recv.Bytes); ok {
			if !v.complete(m, p) {
				m.fault = faultContinuation
			}
			return
		}
	}
	var h wire.Call2
	if h.Parse(m.recv.Bytes).Refused() {
		v.sequence.Fail(p)
		v.endRun()
		m.fault = faultHeader
		return
	}
	m.external = p.Type == wire.TypeCallExternal
	m.body, m.reads, m.offer, m.size = h.Body, h.Reads, h.Offer, h.Size
	if !m.external && !v.complete(m, p) {
		m.fault = faultContinuation
		return
	}
	if !m.chunks() {
		return
	}
	switch h.Within(limits2).Answer.Code {
	case wire.Err2ReadChunks:
		m.fault = faultReadChunks
	case wire.Err2WriteChunks:
		m.fault = faultWriteChunks
	case wire.Err2Segments, wire.Err2System:
		m.fault = faultSegments
	}
	if v.k.invalidate {
		m.invalidate, _ = h.Invalidates()
	}
}

// readReply decodes the header of a reply. If that is bad, the call of the reply ends (§7).
func (v *version2) readReply(m *inbound, p wire.Prefix2) {
	q := v.k.requester
	if q == nil || p.Type.IsMiddle() && !q.waits(p.XID) { // parts get memory only if a call waits for them
		v.sequence.Fail(p)
		v.endRun()
		drop(m, faultStrayReply)
		return
	}
	if p.Type.IsMiddle() {
		v.readPart(m, p)
		return
	}
	m.kind, m.external = kindReply, p.Type == wire.TypeReplyExternal
	if !m.external && wire.IsChunkless2(m.recv.Bytes) {
		m.size = wire.MinReplyInline
	} else {
		var h wire.Reply2
		if h.Parse(m.recv.Bytes).Refused() {
			m.kind = kindDone
			v.sequence.Fail(p)
			v.endRun()
			v.badReply(m)
			return
		}
		m.offer, m.size = wire.Offer{Writes: h.Writes, Reply: h.Reply}, h.Size
	}
	if !m.external && !v.complete(m, p) {
		v.brokenReply(m, false)
		return
	}
	m.refusal = errBrokenReply
}

var errBrokenReply = errors.New("rdma: the reply breaks the rules of version 2 for the order of messages or for headers")

// failReply ends the call of a reply that cannot be used. The result is false if there is no such call.
func (v *version2) failReply(xid uint32) bool {
	q := v.k.requester
	if q == nil || !q.end(&inbound{xid: xid, credits: noLimit, refusal: errBrokenReply}) {
		return false
	}
	q.resume()
	return true
}

// badReply handles a reply whose header is bad. If its call ends, the message was the answer that the call
// permitted, so the peer is permitted no other one.
func (v *version2) badReply(m *inbound) {
	if !v.failReply(m.xid) {
		drop(m, faultHeader)
		return
	}
	m.recv.Release()
	v.k.note(faultHeader, answerDrop, m.xid)
}

// brokenReply handles a reply, or a part of one, that breaks the order of messages. As in badReply, a call that ends has
// permitted the message. If interrupted is true, the message has also ended a call whose reply was not complete. The
// peer gets an error all the same (§6.3.9).
func (v *version2) brokenReply(m *inbound, interrupted bool) {
	permits := 1
	if interrupted {
		permits--
	}
	if v.failReply(m.xid) {
		permits--
	}
	m.kind = kindDone
	m.recv.Release()
	if permits < 0 {
		v.mu.Lock()
		v.surplus++
		v.mu.Unlock()
	}
	v.sendError(m, faultContinuation, max(permits, 0))
}
