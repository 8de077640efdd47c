package iwarp

import (
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// putShortSends appends the FPDUs of the next Sends, as long as those are short and b has room.
// So the sender takes the lock only once for several small replies. mu is held.
func (t *transmitter) putShortSends(b *batch) {
	if t.marked != nil {
		return
	}
	for b.room() && t.nextPosted() {
		ch, st := t.cursor, postingOf(t.cursor)
		w := &ch.Work[st.built]
		n := w.Length()
		if w.Op < rdmacm.OpSend || n > min(inlineBytes, t.untaggedRoom) {
			break
		}
		if t.first == nil {
			t.first = ch
		}
		invalidate := uint32(0)
		if w.Op == rdmacm.OpSendInvalidate {
			invalidate = w.Invalidate
		}
		t.putSend(b, w.Local, n, invalidate)
		t.turns = 0
		if st.built++; st.built == len(ch.Work) {
			t.cursor = ch.Next
		}
	}
}

// sendShort appends a short Send to the batch: see rdmacm.Conn.SendShort. It copies the payload
// into the FPDU and does not keep local.
func (t *transmitter) sendShort(local [][]byte, invalidate uint32) bool {
	n := 0
	for _, piece := range local {
		n += len(piece)
	}
	if n > inlineBytes {
		return false
	}
	t.mu.Lock()
	if !t.takesShort() || n > t.untaggedRoom {
		t.mu.Unlock()
		return false
	}
	first := t.batch == nil
	b := t.borrowBatch()
	t.putSend(b, local, n, invalidate)
	own := (!t.held || !b.room()) && t.acquire()
	t.mu.Unlock()
	if first {
		t.life.watchOn()
	}
	if own {
		t.transmit()
	}
	return true
}

// takesShort reports whether a Send may go into the batch now: no goroutine is the sender,
// sending is allowed, and no other work waits to be sent. mu is held.
func (t *transmitter) takesShort() bool {
	return !t.owned && !t.refusing && !t.fenced && !t.broken && !t.terminated && t.terminate == nil && t.rtr == 0 &&
		t.cursor == nil && t.answers.first == nil && !t.out.active && t.marked == nil
}

// putSend appends a Send of n bytes as one FPDU, and copies the payload. If invalidate is not 0,
// it is a Send with Invalidate of that STag.
func (t *transmitter) putSend(b *batch, local [][]byte, n int, invalidate uint32) {
	h := wire.Untagged{Op: wire.Send, Last: true, Queue: wire.QueueSend, MSN: t.nextMSN(wire.QueueSend)}
	if invalidate != 0 {
		h.Op, h.Invalidate = wire.SendInvalidate, invalidate
	}
	const header = wire.LengthSize + wire.UntaggedSize
	size := wire.FPDUSize(wire.UntaggedSize + n)
	if t.aligned {
		b.whole(size, t.segment)
	} else {
		b.whole(header, t.segment)
	}
	p := b.grow(size)
	wire.PutULPDULength(p, wire.UntaggedSize+n)
	h.Put(p[wire.LengthSize:])
	at := header
	for _, piece := range local {
		at += copy(p[at:], piece)
	}
	trailer := p[size-wire.CRCSize:]
	clear(p[at : size-wire.CRCSize])
	crc := uint32(0)
	if t.agreed.CRC {
		crc = wire.CRC(0, p[:size-wire.CRCSize])
	}
	wire.PutCRC(trailer, crc)
	b.fpdus++
	b.sends++
	b.sendBytes += n
}
