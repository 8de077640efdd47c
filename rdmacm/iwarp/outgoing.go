package iwarp

import (
	"crypto/rand"
	"encoding/binary"

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

// answerTurns is the largest number of answers to RDMA Reads that the sender begins in a row
// while posted work waits.
const answerTurns = 4

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

func (t *transmitter) nextMSN(queue uint32) uint32 {
	t.msn[queue]++
	return t.msn[queue]
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

// fresh returns a random steering tag, never 0.
func (t *stagTable) fresh() uint32 {
	r := &t.random
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		if r.left == 0 {
			rand.Read(r.buf[:])
			r.left = len(r.buf)
		}
		r.left -= 4
		if s := binary.NativeEndian.Uint32(r.buf[r.left:]); s != 0 {
			return s
		}
	}
}

const regionBaseShift = 12

// build appends the next FPDU of the current message to b. It returns false if it found a fault;
// it has then started to end the connection.
func (t *transmitter) build(b *batch) bool {
	m := &t.out
	if m.answer == nil || m.left == 0 {
		t.appendNextFPDU(b)
	} else if !t.putAnswer(b) {
		t.notExposed()
		return false
	}
	if m.left == 0 {
		t.messageBuilt()
	}
	return true
}

// appendNextFPDU appends the next FPDU of the current message.
func (t *transmitter) appendNextFPDU(b *batch) {
	m := &t.out
	room, header := t.untaggedRoom, wire.UntaggedSize
	if m.op.Tagged() {
		room, header = t.taggedRoom, wire.TaggedSize
	}
	n := min(m.left, room)
	inline := n <= inlineBytes
	if t.marked == nil && !inline {
		n = m.fits(n, batchEntries-b.n-2)
	}
	last := n == m.left
	if m.op == wire.ReadRequest {
		header += wire.ReadRequestSize
	}
	if t.marked != nil {
		h := t.marked.header[:wire.LengthSize+header]
		m.putHeader(h, n+header, last)
		t.marked.fpdu(b, h, m, n, t.agreed.CRC)
	} else {
		t.putUnmarked(b, header, n, inline, last)
	}
	m.left -= n
	m.taggedOffset += uint64(n)
	m.messageOffset += uint32(n)
}

// putUnmarked appends an FPDU without markers. header and n are the lengths of its header and of its
// payload, in bytes. If inline is true, the payload is copied; otherwise the batch refers to it.
func (t *transmitter) putUnmarked(b *batch, header, n int, inline, last bool) {
	m := &t.out
	pad := wire.Pad(header + n)
	switch size := wire.LengthSize + header; {
	case t.aligned:
		b.whole(size+n+pad+wire.CRCSize, t.segment)
	case !m.op.Tagged():
		b.whole(size, t.segment)
	}
	start := b.used
	h := b.grow(wire.LengthSize + header)
	m.putHeader(h, n+header, last)
	crc := uint32(0)
	if inline {
		m.copyOut(b.grow(n))
		clear(b.grow(pad))
		if t.agreed.CRC {
			crc = wire.CRC(0, b.scratch[start:b.used])
		}
	} else {
		if t.agreed.CRC {
			crc = wire.CRC(0, h)
		}
		crc = m.referTo(b, n, crc, t.agreed.CRC)
		p := b.grow(pad)
		clear(p)
		if t.agreed.CRC {
			crc = wire.CRC(crc, p)
		}
	}
	wire.PutCRC(b.grow(wire.CRCSize), crc)
}

func (m *outgoing) putHeader(h []byte, ulpdu int, last bool) {
	wire.PutULPDULength(h, ulpdu)
	h = h[wire.LengthSize:]
	if m.op.Tagged() {
		wire.Tagged{Op: m.op, Last: last, STag: m.stag, Offset: m.taggedOffset}.Put(h)
		return
	}
	wire.Untagged{
		Op: m.op, Last: last, Invalidate: m.invalidate,
		Queue: m.queue, MSN: m.msn, Offset: m.messageOffset,
	}.Put(h)
	if m.op == wire.ReadRequest {
		m.request.Put(h[wire.UntaggedSize:])
	}
}

// fits returns how many of the next n bytes of payload a batch can refer to with the given number
// of free iov entries. Each piece of payload needs an entry of its own.
func (m *outgoing) fits(n, entries int) int {
	got, offset := 0, m.offset
	for i := 0; got < n && entries > 0; i++ {
		if k := len(m.pieces[i]) - offset; k > 0 {
			got += k
			entries--
		}
		offset = 0
	}
	return min(n, got)
}

// piece returns the next piece of payload, of at most n bytes, and moves the position behind it.
func (m *outgoing) piece(n int) []byte {
	for m.offset == len(m.pieces[0]) {
		m.pieces, m.offset = m.pieces[1:], 0
	}
	p := m.pieces[0][m.offset:]
	p = p[:min(n, len(p))]
	m.offset += len(p)
	return p
}

func (m *outgoing) copyOut(b []byte) {
	for len(b) > 0 {
		b = b[copy(b, m.piece(len(b))):]
	}
}

// referTo appends n bytes of payload to b as references. If withCRC is true, it returns crc
// extended by these bytes.
func (m *outgoing) referTo(b *batch, n int, crc uint32, withCRC bool) uint32 {
	for n > 0 {
		p := m.piece(n)
		b.refer(p)
		if withCRC {
			crc = wire.CRC(crc, p)
		}
		n -= len(p)
	}
	return crc
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
