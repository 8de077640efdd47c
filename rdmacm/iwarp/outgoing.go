package iwarp

import (
	"slices"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// outgoing is the message that the transmitter cuts into FPDUs.
type outgoing struct {
	active bool
	op     wire.Opcode
	chain  *rdmacm.Chain // the chain of the work request, or nil
	answer *response     // the answer to the peer's Read Request, or nil

	// The payload that is not in an FPDU yet: left bytes, from pieces[0][offset:] on.
	pieces [][]byte
	offset int
	left   int

	// The header fields of the next segment.
	stag, invalidate, queue, msn, messageOffset uint32
	taggedOffset                                uint64
	request                                     wire.Read // of a Read Request
}

// next selects and begins the next message: first the ready-to-receive message, then answers to
// the peer's RDMA Reads, alternating with posted work. It appends short Sends that come before
// that message to b. It returns false if nothing may be sent now, or b has no room.
func (t *transmitter) next(b *batch) bool {
	t.mu.Lock()
	rtr, answer, ch := t.pick(b)
	t.mu.Unlock()
	switch {
	case rtr != 0:
		t.startRTR(rtr)
	case answer != nil:
		t.startAnswer(answer)
	case ch != nil:
		t.startWork(ch)
	default:
		return false
	}
	return true
}

// pick chooses the message to begin next. At most one of its results is not zero. If no
// answer and no Terminate waits, pick first appends the waiting short Sends to b. mu is held.
func (t *transmitter) pick(b *batch) (rtr wire.RTR, answer *response, ch *rdmacm.Chain) {
	if t.broken || t.fenced {
		return
	}
	if rtr = t.rtr; rtr != 0 {
		t.rtr = 0
		if rtr == wire.RTRRead {
			t.readsOut++
		}
		return
	}
	if len(t.answers) == 0 && t.terminate == nil {
		if t.putShortSends(b); !b.room() {
			return
		}
	}
	posted := t.nextPosted()
	if len(t.answers) > 0 && (!posted || t.turns < answerTurns) {
		t.turns++
		return 0, t.answers[0], nil
	}
	if posted {
		t.turns = 0
		ch = t.cursor
		if ch.Work[postingOf(ch).built].Op == rdmacm.OpRead {
			t.readsOut++
		}
	}
	return 0, nil, ch
}

// answerTurns is the largest number of answers to RDMA Reads that the sender begins in a row
// while posted work waits.
const answerTurns = 4

// nextPosted moves the cursor past chains with nothing to send. It reports whether the work
// request at the cursor may be sent. mu is held.
func (t *transmitter) nextPosted() bool {
	for t.cursor != nil {
		st := postingOf(t.cursor)
		if st.err == nil && st.built < len(t.cursor.Work) {
			return t.cursor.Work[st.built].Op != rdmacm.OpRead || t.readsOut < t.agreed.ORD
		}
		st.built, st.sent = len(t.cursor.Work), len(t.cursor.Work)
		t.cursor = t.cursor.Next
	}
	return false
}

// sendable reports whether there is something that may be sent now. mu is held.
func (t *transmitter) sendable() bool {
	if t.broken || t.fenced || t.terminated {
		return false
	}
	if t.terminate != nil || t.rtr != 0 || len(t.answers) > 0 || t.out.active || t.batch != nil && t.batch.left > 0 {
		return true
	}
	if t.cursor == nil {
		return false
	}
	st := postingOf(t.cursor)
	return st.err != nil || st.built == len(t.cursor.Work) ||
		t.cursor.Work[st.built].Op != rdmacm.OpRead || t.readsOut < t.agreed.ORD
}

// startWork begins the next work request of ch.
func (t *transmitter) startWork(ch *rdmacm.Chain) {
	if t.first == nil {
		t.first = ch
	}
	w := &ch.Work[postingOf(ch).built]
	m := &t.out
	*m = outgoing{active: true, chain: ch, pieces: w.Local}
	switch w.Op {
	case rdmacm.OpWrite:
		m.op, m.left = wire.Write, w.Length()
		m.stag, m.taggedOffset = w.Remote.STag, w.Remote.Offset
	case rdmacm.OpSendInvalidate, rdmacm.OpSend:
		m.op, m.left = wire.Send, w.Length()
		if w.Op == rdmacm.OpSendInvalidate {
			m.op, m.invalidate = wire.SendInvalidate, w.Invalidate
		}
		m.queue, m.msn = wire.QueueSend, t.nextMSN(wire.QueueSend)
	case rdmacm.OpRead:
		m.pieces = nil
		t.startRead(w.Local, w.Length(), w.Remote, ch)
	}
}

// startRead begins an RDMA Read. ch is nil for the ready-to-receive message.
func (t *transmitter) startRead(local [][]byte, size int, from rdmacm.Remote, ch *rdmacm.Chain) {
	m := &t.out
	m.op, m.queue, m.msn = wire.ReadRequest, wire.QueueRead, t.nextMSN(wire.QueueRead)
	r := t.p.outReads.Get().(*outRead)
	*r = outRead{
		stag: t.p.stags.fresh(), size: size, msn: m.msn, pieces: local, chain: ch,
		base: uint64(t.p.stags.fresh()) << regionBaseShift,
	}
	m.request = wire.Read{
		SinkSTag: r.stag, SinkOffset: r.base, Size: uint32(size),
		SourceSTag: from.STag, SourceOffset: from.Offset,
	}
	t.rx.expect(r)
}

// startRTR begins the ready-to-receive message for the responder (RFC 6581 §9.2).
func (t *transmitter) startRTR(form wire.RTR) {
	m := &t.out
	*m = outgoing{active: true}
	switch form {
	case wire.RTRWrite:
		m.op, m.stag = wire.Write, rtrSTag
	case wire.RTRRead:
		t.startRead(nil, 0, rdmacm.Remote{STag: rtrSTag}, nil)
	case wire.RTRSend:
		m.op, m.queue, m.msn = wire.Send, wire.QueueSend, t.nextMSN(wire.QueueSend)
	}
}

// rtrSTag is arbitrary: no peer checks the STag of a zero-length message.
const rtrSTag = 1

// startAnswer begins an RDMA Read Response.
func (t *transmitter) startAnswer(a *response) {
	t.out = outgoing{
		active: true, op: wire.ReadResponse, answer: a, left: int(a.request.Size),
		stag: a.request.SinkSTag, taggedOffset: a.request.SinkOffset,
	}
}

// messageBuilt runs after the last FPDU of the current message is built. It removes the message's
// answer from the queue, or goes on to the next work request.
func (t *transmitter) messageBuilt() {
	m := &t.out
	m.active = false
	m.pieces = nil
	t.mu.Lock()
	defer t.mu.Unlock()
	if m.answer != nil {
		t.giveBackPlace()
		m.answer = nil
	}
	if m.chain != nil {
		st := postingOf(m.chain)
		if st.built++; st.built == len(m.chain.Work) {
			t.cursor = m.chain.Next
		}
		m.chain = nil
	}
}

// giveBackPlace removes the oldest answer, whose last FPDU is built, and so allows the peer one
// more RDMA Read. It does not wait until TCP has taken that FPDU, because a peer that has the
// whole response may send its next Read at once. If the peer does not read, this side still holds
// no more than the agreed number of Reads and one batch. mu is held.
func (t *transmitter) giveBackPlace() {
	a := t.answers[0]
	t.answers = slices.Delete(t.answers, 0, 1)
	t.answering.Add(-1)
	a.region, a.piece[0] = nil, nil
	t.p.responses.Put(a)
}

// batchWritten runs after TCP took the whole batch. It marks the work requests of the FPDUs as
// sent. If the Terminate was among the FPDUs, it closes this side's half of the connection.
func (t *transmitter) batchWritten() {
	t.mu.Lock()
	for ch := t.first; ch != nil; ch = ch.Next {
		st := postingOf(ch)
		if st.sent = st.built; st.sent == len(ch.Work) {
			t.sent(st)
		}
		if ch == t.cursor {
			break
		}
	}
	t.first = nil
	if t.cursor != nil && postingOf(t.cursor).built > 0 || t.out.chain != nil {
		t.first = t.cursor
	}
	done := t.terminated
	if done {
		t.broken = true
	}
	t.mu.Unlock()
	if done {
		t.sock.CloseWrite()
	}
}

// An outRead is an outstanding RDMA Read of this side. stag names the memory that it fills; only
// the response to this Read may use it.
type outRead struct {
	stag  uint32
	base  uint64
	size  int
	msn   uint32 // of the request
	chain *rdmacm.Chain

	// The response's next byte goes to pieces[0][offset]. placed is the number of bytes received.
	pieces [][]byte
	offset int
	placed int
}

// A response is the answer to an RDMA Read of the peer, until all its FPDUs are built.
type response struct {
	request wire.Read
	region  *region   // nil if the Read has length 0
	piece   [1][]byte // the part of the region that is sent
	// header is the DDP header of the request, for a Terminate that quotes it.
	header [wire.UntaggedSize]byte
}
