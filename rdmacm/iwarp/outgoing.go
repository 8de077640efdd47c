package iwarp

import (
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// outgoing is the message that the transmitter cuts into FPDUs.
type outgoing struct {
	active bool
	op     wire.Opcode
	chain  *rdmacm.Chain // of the work request that it carries out, or nil
	answer *response     // to the peer's Read Request, or nil

	// What is still to go: from pieces[0][offset:] on.
	pieces [][]byte
	offset int
	left   int

	// The header of the next segment.
	stag, invalidate, queue, msn, messageOffset uint32
	taggedOffset                                uint64
	request                                     wire.Read // of a Read Request
}

// next picks the message to send: the ready-to-receive message first, then
// answers to the peer's RDMA Reads in turn with what was posted. It says false
// when there is nothing that may go.
func (c *Conn) next() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken || c.fenced {
		return false
	}
	if c.rtr != 0 {
		c.startRTR()
		return true
	}
	posted := c.nextPosted()
	if c.answers.unsent != nil && (!posted || c.tx.turns < answerTurns) {
		c.tx.turns++
		c.startAnswer(c.answers.unsent)
		return true
	}
	if posted {
		c.tx.turns = 0
		c.startWork()
	}
	return posted
}

// answerTurns is how many answers go in a row while posted work waits.
const answerTurns = 4

// nextPosted moves the cursor over chains with nothing to send, and says
// whether a work request may go. c.mu is held.
func (c *Conn) nextPosted() bool {
	for c.cursor != nil {
		st := postingOf(c.cursor)
		if st.err == nil && st.built < len(c.cursor.Work) {
			return c.cursor.Work[st.built].Op != rdmacm.OpRead || c.reads.count < c.agreed.ORD
		}
		st.built, st.sent = len(c.cursor.Work), len(c.cursor.Work)
		c.cursor = c.cursor.Next
	}
	return false
}

// sendable says whether next would find something. c.mu is held.
func (c *Conn) sendable() bool {
	if c.broken || c.fenced {
		return false
	}
	if c.terminated {
		return false
	}
	if c.terminate != nil || c.rtr != 0 || c.answers.unsent != nil || c.tx.out.active {
		return true
	}
	if c.cursor == nil {
		return false
	}
	st := postingOf(c.cursor)
	return st.err != nil || st.built == len(c.cursor.Work) ||
		c.cursor.Work[st.built].Op != rdmacm.OpRead || c.reads.count < c.agreed.ORD
}

// startWork begins the work request at the cursor. c.mu is held.
func (c *Conn) startWork() {
	ch := c.cursor
	if c.tx.first == nil {
		c.tx.first = ch
	}
	w := &ch.Work[postingOf(ch).built]
	m := &c.tx.out
	*m = outgoing{active: true, chain: ch, pieces: w.Local}
	switch w.Op {
	case rdmacm.OpWrite:
		m.op, m.left = wire.Write, w.Length()
		m.stag, m.taggedOffset = w.Remote.STag, w.Remote.Offset
		c.p.counters.writeBytesOut.Add(uint64(m.left))
	case rdmacm.OpSendInvalidate, rdmacm.OpSend:
		m.op, m.left = wire.Send, w.Length()
		if w.Op == rdmacm.OpSendInvalidate {
			m.op, m.invalidate = wire.SendInvalidate, w.Invalidate
		}
		m.queue, m.msn = wire.QueueSend, c.tx.nextMSN(wire.QueueSend)
		c.p.counters.sendsOut.Add(1)
		c.p.counters.sendBytesOut.Add(uint64(m.left))
	case rdmacm.OpRead:
		m.pieces = nil
		c.startRead(w.Local, w.Length(), w.Remote, ch)
	}
}

// startRead begins an RDMA Read; chain is nil for that of the ready-to-receive
// message. c.mu is held.
func (c *Conn) startRead(local [][]byte, size int, from rdmacm.Remote, ch *rdmacm.Chain) {
	m := &c.tx.out
	r := c.p.outReads.Get().(*outRead)
	*r = outRead{
		stag: c.p.stags.fresh(), size: size, pieces: local, chain: ch,
		base: uint64(c.p.stags.fresh()) << regionBaseShift,
	}
	c.reads.push(r)
	m.op, m.queue, m.msn = wire.ReadRequest, wire.QueueRead, c.tx.nextMSN(wire.QueueRead)
	m.request = wire.Read{
		SinkSTag: r.stag, SinkOffset: r.base, Size: uint32(size),
		SourceSTag: from.STag, SourceOffset: from.Offset,
	}
	c.p.counters.readsOut.Add(1)
}

// startRTR begins the message that tells the responder that this side is ready
// (RFC 6581 §9.2). c.mu is held.
func (c *Conn) startRTR() {
	m := &c.tx.out
	*m = outgoing{active: true}
	switch c.rtr {
	case wire.RTRWrite:
		m.op, m.stag = wire.Write, rtrSTag
	case wire.RTRRead:
		c.startRead(nil, 0, rdmacm.Remote{STag: rtrSTag}, nil)
	case wire.RTRSend:
		m.op, m.queue, m.msn = wire.Send, wire.QueueSend, c.tx.nextMSN(wire.QueueSend)
	}
	c.rtr = 0
}

// rtrSTag is any: a zero-length message's is not looked at.
const rtrSTag = 1

// startAnswer begins an RDMA Read Response. c.mu is held.
func (c *Conn) startAnswer(a *response) {
	c.tx.out = outgoing{
		active: true, op: wire.ReadResponse, answer: a, left: int(a.request.Size),
		stag: a.request.SinkSTag, taggedOffset: a.request.SinkOffset,
	}
	c.p.counters.readBytesOut.Add(uint64(a.request.Size))
}

// messageBuilt notes that the current message is cut to its end.
func (c *Conn) messageBuilt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := &c.tx.out
	m.active = false
	m.pieces = nil
	if m.answer != nil {
		c.answers.unsent = m.answer.next
		c.tx.answersBuilt++
		m.answer = nil
	}
	if m.chain != nil {
		st := postingOf(m.chain)
		if st.built++; st.built == len(m.chain.Work) {
			c.cursor = m.chain.Next
		}
		m.chain = nil
	}
}

// batchWritten notes that TCP took the batch.
func (c *Conn) batchWritten(b *batch) {
	p := &c.p.counters
	p.fpdusOut.Add(uint64(b.fpdus))
	p.bytesOut.Add(uint64(b.bytes))
	c.mu.Lock()
	for ch := c.tx.first; ch != nil; ch = ch.Next {
		st := postingOf(ch)
		if st.sent = st.built; st.sent == len(ch.Work) {
			c.sent(st)
		}
		if ch == c.cursor {
			break
		}
	}
	c.tx.first = nil
	if c.cursor != nil && postingOf(c.cursor).built > 0 || c.tx.out.chain != nil {
		c.tx.first = c.cursor
	}
	for ; c.tx.answersBuilt > 0; c.tx.answersBuilt-- {
		a := c.answers.pop()
		a.region = nil
		c.p.responses.Put(a)
	}
	done := c.terminated
	if done {
		c.broken = true
	}
	c.mu.Unlock()
	if done {
		c.sock.CloseWrite()
	}
}
