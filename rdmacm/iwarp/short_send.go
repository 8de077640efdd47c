package iwarp

import (
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// putShortSends appends the FPDUs of the Sends that are next, as long as those
// are short and there is room: a run of small replies takes the lock once. mu is
// held.
func (t *transmitter) putShortSends(b *batch) {
	if t.marked != nil {
		return
	}
	sends, bytes := 0, 0
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
		t.putSend(b, w, n)
		sends++
		bytes += n
		if st.built++; st.built == len(ch.Work) {
			t.cursor = ch.Next
		}
	}
	if sends > 0 {
		t.turns = 0
		t.p.counters.sendsOut.Add(uint64(sends))
		t.p.counters.sendBytesOut.Add(uint64(bytes))
	}
}

// putSend appends the one FPDU of a Send of n bytes, which it copies.
func (t *transmitter) putSend(b *batch, w *rdmacm.Work, n int) {
	h := wire.Untagged{Op: wire.Send, Last: true, Queue: wire.QueueSend, MSN: t.nextMSN(wire.QueueSend)}
	if w.Op == rdmacm.OpSendInvalidate {
		h.Op, h.Invalidate = wire.SendInvalidate, w.Invalidate
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
	for _, piece := range w.Local {
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
}
