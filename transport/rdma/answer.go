package rdma

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// replied handles a reply. If the reply does not match its call, replied drops it. In version 2 the call then
// ends with an error. In version 1 it stays pending, and if no matching reply comes, the requester's timer ends
// the connection (RFC 8166 §4.5). If the reply has invalidated an STag of another call, replied ends the
// connection.
func (q *requester) replied(m *inbound) {
	q.mu.Lock()
	e := q.pending.of(m.xid)
	if e != nil && e.gaveUp {
		q.answeredLocked(e, m)
		q.mu.Unlock()
		m.recv.Release()
		q.k.note(faultLateReply, answerDrop, m.xid)
		q.resume()
		return
	}
	f := faultStrayReply
	if e != nil {
		f = e.accepts(m)
	}
	switch f {
	case faultNone:
	case faultInvalidation:
		q.mu.Unlock()
		stag := m.recv.Invalidated
		m.recv.Release()
		q.k.endConnection(f, fmt.Errorf("rdma: reply %#x invalidated STag %#x of another call: %w",
			m.xid, stag, rdmacm.ErrNotExposed))
		return
	default:
		q.mu.Unlock()
		if m.refusal == nil || !q.end(m) {
			q.k.drop(f, m)
			return
		}
		m.recv.Release()
		q.k.note(f, answerDrop, m.xid)
		q.resume()
		return
	}
	q.answeredLocked(e, m)
	e.stage = stageEnded
	e.recv, e.whole = m.recv, m.whole
	// If no call is queued now, resume is not needed: the goroutine that starts a later call also
	// sends it.
	more := q.queue.First != nil
	fence := len(e.regions) > 0
	last := !fence && e.parts.Add(-1) == 0
	if last {
		e.x.Transport = nil
	}
	q.mu.Unlock()
	q.k.stats.Answers.Add(1)
	switch {
	case last:
		e.tell(nil)
	case fence:
		// settle revokes the peer's access to the memory before the caller gets the
		// outcome.
		q.settle(e, nil)
	}
	if more {
		q.resume()
	}
}

// answeredLocked takes e out of the pending calls and applies the grant in its answer m.
func (q *requester) answeredLocked(e *exchange, m *inbound) {
	q.pending.remove(m.xid)
	q.credits.answered(m.credits, m.kind == kindError)
	q.caller.answered = true
	if e.gaveUp {
		q.givenUp--
	}
}

// refused handles an RDMA_ERROR, which ends its call.
func (q *requester) refused(m *inbound) {
	if !q.end(m) {
		q.k.drop(faultStrayError, m)
		return
	}
	m.recv.Release()
	q.k.stats.Refused.Add(1)
	q.resume()
}

// end ends the call of m with the error m.refusal. It returns false if no call has this XID.
func (q *requester) end(m *inbound) bool {
	q.mu.Lock()
	e := q.pending.of(m.xid)
	if e == nil {
		q.mu.Unlock()
		return false
	}
	q.answeredLocked(e, m)
	if !e.gaveUp {
		e.stage = stageEnded
	}
	q.mu.Unlock()
	if !e.gaveUp {
		q.settle(e, m.refusal)
	}
	return true
}

// exposes reports whether stag names memory that the call exposed.
func (e *exchange) exposes(stag uint32) bool {
	for _, r := range e.regions {
		if r.STag() == stag {
			return true
		}
	}
	return false
}

// accepts checks a reply against its call. The reply must return the chunks that the call
// offered, with no more bytes than offered (RFC 8166 §3.4.6, §4.3). The peer may have
// invalidated an STag of this call, but no other STag (RFC 8797 §4.1). accepts sets
// e.stream to the reply's message and e.places to the data of its results.
func (e *exchange) accepts(m *inbound) Fault {
	e.places = e.places[:0]
	if m.reads.Len() > 0 {
		return faultReplyReads
	}
	if m.offer.Writes.Len() != len(e.lists.Writes) {
		return faultReplyLists
	}
	l := m.offer.Writes
	for i, offered := range e.lists.Writes {
		if !e.acceptsChunk(l.Next(), offered, e.x.Sinks[i]) {
			return faultReplyLists
		}
	}
	used, long := m.offer.Reply.Bytes(), m.external
	switch {
	case long && !m.offer.Reply.Present:
		return faultReplyMessage
	case m.offer.Reply.Present && (e.lists.Reply == nil || !echoes(m.offer.Reply.WriteChunk, e.lists.Reply, 0) || !long && used != 0):
		return faultReplyLists
	case long:
		e.stream = e.replyMem[:used]
	default:
		e.stream = m.payload()
	}
	switch {
	case len(e.stream) < 8 || len(e.stream)%4 != 0 ||
		binary.BigEndian.Uint32(e.stream) != e.xid ||
		binary.BigEndian.Uint32(e.stream[4:]) != uint32(rpc.TypeReply):
		return faultReplyMessage
	case m.recv.Invalidated != 0 && !e.exposes(m.recv.Invalidated):
		return faultInvalidation
	}
	return faultNone
}

// acceptsChunk reports whether a reply may return c for the Write chunk offered. If so, it records
// which data was placed in sink.
func (e *exchange) acceptsChunk(c wire.WriteChunk, offered []wire.Segment, sink []byte) bool {
	switch {
	case len(offered) == 0:
		// The call asked for this result inline.
		e.places = append(e.places, xdr.Excised{})
		return c.Len() == 0
	case c.Len() == 0:
		// A peer may also return an unused chunk without segments (RFC 8267 §6.4.1).
		e.places = append(e.places, xdr.Excised{Data: sink[:0]})
		return true
	}
	// Peers that predate RFC 8166 may include up to 3 bytes of padding in the length.
	if !echoes(c, offered, 3) {
		return false
	}
	used := min(c.Bytes(), uint64(len(sink)))
	e.places = append(e.places, xdr.Excised{Data: sink[:used]})
	return true
}

// echoes reports whether c is the offered chunk with lengths that a responder may return: no
// segment is longer than offered, and all segments before the last one with data are full. The last
// segment of the chunk may be longer than offered by up to surplus bytes.
func echoes(c wire.WriteChunk, offered []wire.Segment, surplus uint32) bool {
	if c.Len() != len(offered) {
		return false
	}
	full := true
	for i, o := range offered {
		s := c.At(i)
		if s.Handle != o.Handle || s.Offset != o.Offset || !full && s.Length > 0 {
			return false
		}
		if s.Length > o.Length && (i < len(offered)-1 || s.Length-o.Length > surplus) {
			return false
		}
		full = s.Length >= o.Length
	}
	return true
}

// The longest wait for an answer (DialConfig.Timeout) is callTicks ticks of the timer.
const callTicks = 4

// tickOnLocked lets the timer tick, if calls have a time-out.
func (q *requester) tickOnLocked() {
	if q.timeout > 0 && !q.ticking {
		q.ticking = true
		q.tickInLocked()
	}
}

// tickInLocked starts the timer for the next tick.
func (q *requester) tickInLocked() {
	if q.timer == nil {
		q.timer = time.AfterFunc(q.timeout/callTicks, q.tick)
	} else {
		q.timer.Reset(q.timeout / callTicks)
	}
}

// tick counts one tick for each pending call, or for the first queued call if no call is pending. If a
// call has waited too long, tick ends the connection, so that the client can send its calls again on another
// connection. The peer may have dropped the call, this side may have dropped the reply, or the peer permits no
// call.
func (q *requester) tick() {
	q.mu.Lock()
	if q.ended || q.pending.n == 0 && q.queue.First == nil {
		q.ticking = false
		q.mu.Unlock()
		return
	}
	late := false
	if e := q.queue.First; e != nil && q.pending.n == 0 {
		e.age++
		late = e.age > callTicks
	}
	for e := range q.pending.all {
		e.age++
		late = late || e.age > callTicks
	}
	if !late {
		q.tickInLocked()
	}
	q.mu.Unlock()
	if late {
		q.k.endConnection(faultUnanswered, fmt.Errorf("rdma: a call was not answered within %v: %w", q.timeout, rdmacm.ErrTimeout))
	}
}
