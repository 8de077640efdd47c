package iwarp

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

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

// putUnmarked appends an FPDU without markers. header and n are the lengths of its header and of
// its payload, in bytes. If inline is true, the payload is copied; otherwise the batch refers to
// it.
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

// putAnswer appends the next FPDU of a Read Response. It returns false if the memory is no
// longer exposed.
func (t *transmitter) putAnswer(b *batch) bool {
	t.referring.mu.Lock()
	defer t.referring.mu.Unlock()
	m := &t.out
	r, q := m.answer.region, &m.answer.request
	r.mu.Lock()
	memory := r.memory
	r.mu.Unlock()
	if memory == nil {
		return false
	}
	at := q.SourceOffset - r.base + uint64(int(q.Size)-m.left)
	m.pieces = append(m.answer.piece[:0], memory[at:at+uint64(m.left)])
	m.offset = 0
	b.exposed, b.exposing = true, true
	t.referring.batch = b
	t.appendNextFPDU(b)
	b.exposing = false
	return true
}

// notExposed ends the connection because the memory of the current Read Response is no
// longer exposed.
func (t *transmitter) notExposed() {
	m := &t.out
	// The quoted request names only the part that was not answered yet.
	rest := m.answer.request
	done := uint64(int(rest.Size) - m.left)
	rest.SinkOffset += done
	rest.SourceOffset += done
	rest.Size -= uint32(done)
	var quoted [wire.ReadRequestSize]byte
	rest.Put(quoted[:])
	m.active = false
	t.life.fault(&wire.Termination{
		Cause: wire.RDMAPInvalidSTag, DDP: m.answer.header[:], RDMAP: quoted[:],
		SegmentLength: wire.UntaggedSize + wire.ReadRequestSize,
	}, nil)
	t.mu.Lock()
	if t.terminate == nil {
		// The method fault has queued no Terminate, because the connection was already ending.
		// So nothing more may be sent.
		t.broken = true
	}
	t.mu.Unlock()
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

// marked builds FPDUs for a peer that wants markers. It copies the payload; each batch
// holds one such FPDU.
type marked struct {
	marker wire.Marker
	header [wire.LengthSize + wire.UntaggedSize + wire.MaxTerminateSize]byte
	buf    []byte
}

// fpdu appends an FPDU with header h and the next n bytes of m.
func (k *marked) fpdu(b *batch, h []byte, m *outgoing, n int, crc bool) {
	size := len(h) + n + wire.CRCSize + wire.LengthSize
	k.startFPDU(size)
	at := k.marker.Put(k.buf, h)
	for left := n; left > 0; {
		p := m.piece(left)
		at += k.marker.Put(k.buf[at:], p)
		left -= len(p)
	}
	var pad [3]byte
	at += k.marker.Put(k.buf[at:], pad[:wire.Pad(len(h)-wire.LengthSize+n)])
	k.finishFPDU(b, at, crc)
}

// whole appends a complete FPDU. It inserts the markers, and computes the CRC anew, because the
// CRC covers the markers.
func (k *marked) whole(b *batch, fpdu []byte, crc bool) {
	k.startFPDU(len(fpdu))
	k.finishFPDU(b, k.marker.Put(k.buf, fpdu[:len(fpdu)-wire.CRCSize]), crc)
}

func (k *marked) startFPDU(size int) {
	if size += wire.MaxMarkers(size); len(k.buf) < size {
		k.buf = make([]byte, size)
	}
	k.marker.Begin()
}

func (k *marked) finishFPDU(b *batch, at int, crc bool) {
	// A marker between pad and CRC is written before the CRC is computed, because the CRC covers
	// it.
	if k.marker.Due() {
		at += k.marker.PutDue(k.buf[at:])
	}
	sum := uint32(0)
	if crc {
		sum = wire.CRC(0, k.buf[:at])
	}
	var field [wire.CRCSize]byte
	wire.PutCRC(field[:], sum)
	at += k.marker.Put(k.buf[at:], field[:])
	b.refer(k.buf[:at])
	b.full = true
}

// A batch is divided into records. MSG_EOR tells TCP to end a segment at the end of a record, so
// the next record starts a new segment. What lies within the first segment of a record arrives in
// one piece, because TCP does not send the beginning of a segment before the peer's window has
// room for all of it.
//
// MPA does not need that (RFC 5044 §6), but Linux's siw does. If an untagged header arrives in
// two pieces, siw copies the second piece with the length of the whole header, and so overwrites
// other kernel memory (Linux 6.12.95 and older). If pad and CRC arrive in two pieces, siw keeps
// only the second piece, and so finds the CRC wrong.

const (
	batchRecords = 96
	// optionRoom is the size of the longest TCP options, in bytes. A segment with selective
	// acknowledgements may carry up to that much less payload than TCP_MAXSEG.
	optionRoom = 40
	// The transmitter reads the segment size again only when it has sent remeasureBytes bytes and
	// remeasureTime has passed. Otherwise a fast sender would read it thousands of times a
	// second.
	remeasureBytes = 1 << 20
	remeasureTime  = 20 * time.Millisecond
)

// whole makes sure that the next n bytes of b lie within the first segment of their record, if
// they fit into a segment at all. segment is the length of a segment in bytes.
func (b *batch) whole(n, segment int) {
	if b.record > 0 && b.record+n > segment {
		b.cut()
	}
}

// cut ends the current record.
func (b *batch) cut() {
	b.ends[b.records] = b.n
	b.records++
	b.record = 0
	b.open = false
}

// send sends the rest of the records, or as much as the socket takes. If a record other than the
// first fails, the kernel reports only the number of records before it; the error shows when the
// rest is sent.
func (b *batch) send(fd uintptr) (n int, errno unix.Errno) {
	for b.records > b.sent && b.ends[b.sent] <= b.first {
		b.sent++
	}
	first, k := b.first, 0
	for i := b.sent; first < b.n; i++ {
		end := b.n
		if i < b.records {
			end = b.ends[i]
		}
		h := &b.headers[k]
		h.Hdr.Iov = &b.iov[first]
		h.Hdr.SetIovlen(end - first)
		first = end
		k++
	}
	r, _, errno := unix.Syscall6(unix.SYS_SENDMMSG, fd, uintptr(unsafe.Pointer(&b.headers[0])), uintptr(k),
		unix.MSG_EOR|unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	for i := range int(r) {
		n += int(b.headers[i].Len)
	}
	return n, 0
}
