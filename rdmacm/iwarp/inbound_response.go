package iwarp

import (
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

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

// expect passes an RDMA Read to the receiver. The transmitter calls it before it sends the
// request, so that the receiver knows the Read when the response arrives.
func (x *receiver) expect(r *outRead) {
	x.mu.Lock()
	x.reads = append(x.reads, r)
	x.due.Add(1)
	x.mu.Unlock()
}

// outstanding returns the Reads whose responses are not complete, oldest first. The result is valid
// until the receiver removes a Read.
func (x *receiver) outstanding() []*outRead {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.reads
}

// oldestRead returns the Read whose response is due, or nil.
func (x *receiver) oldestRead() *outRead {
	if x.oldest == nil && x.due.Load() > 0 {
		x.oldest = x.outstanding()[0]
	}
	return x.oldest
}

// judgeReadResponse checks a segment of a Read Response against the oldest Read that waits
// for one: steering tag, offset and length must match the rest of the Read.
func (x *receiver) judgeReadResponse() {
	f := &x.fpdu
	r := x.oldestRead()
	if r == nil {
		f.wrong(wire.DDPCatastrophic, nil)
		return
	}
	h := &f.tagged
	switch {
	case f.left == 0 && r.size == 0:
	case h.STag != r.stag && f.left > 0:
		f.wrong(wire.DDPInvalidSTag, nil)
		return
	case h.Offset != r.base+uint64(r.placed) && f.left > 0,
		f.left > r.size-r.placed,
		h.Last && f.left != r.size-r.placed:
		f.wrong(wire.DDPBounds, nil)
		return
	}
	f.read, f.target = r, toSink
	if x.border && r.placed == 0 {
		x.sure = true
	}
	x.border = false
	if !h.Last && f.left >= directMin {
		x.usual = f.ulpdu
	}
}

func (r *outRead) copyIn(p []byte) {
	r.placed += len(p)
	for len(p) > 0 {
		r.skipFull()
		n := copy(r.pieces[0][r.offset:], p)
		r.offset += n
		p = p[n:]
	}
}

func (r *outRead) pass(n int) {
	r.placed += n
	for n > 0 {
		r.skipFull()
		k := min(n, len(r.pieces[0])-r.offset)
		r.offset += k
		n -= k
	}
}

func (r *outRead) skipFull() {
	for r.offset == len(r.pieces[0]) {
		r.pieces, r.offset = r.pieces[1:], 0
	}
}

// endRead completes the oldest Read.
func (x *receiver) endRead() {
	x.mu.Lock()
	r := x.reads[0]
	x.reads, x.oldest = slices.Delete(x.reads, 0, 1), nil
	x.mu.Unlock()
	ch := r.chain
	x.empty = 0
	x.answered.Add(1)
	*r = outRead{}
	x.p.outReads.Put(r)
	if x.due.Add(-1) == 0 {
		x.streak = 0 // no Response is due, so the next FPDUs are likely to be short
	}
	x.tx.readDone(ch)
}

// An FPDU's header says where its payload goes. To receive more than one FPDU of a large RDMA Read's
// response with one system call, the receiver reads ahead: it guesses that the next FPDUs of the
// response are as long as those before. It lays out their payload in the sink, and the bytes between
// payloads (trailer and header) in gaps. It then judges each header as usual. If the header is the
// guessed one, its payload is already in place. If not, the receiver moves everything that it read
// ahead to the ring, in the order of arrival, and parses it there.
//
// Only the sink of the Read is written to ahead of the headers. The sink's content is
// undefined until the Read is complete, and the guess never exceeds the rest of the Read.

// ahead is the layout of the bytes guessed to follow the FPDU that is being received.
type ahead struct {
	read  *outRead // the Read that the payload is guessed to answer
	parts [2*aheadFPDUs + 1]aheadPart
	n     int // parts in use
	next  int // index of the first part that is not processed
	left  int // bytes received for the parts from next on
	gaps  [aheadFPDUs + 1][directTail]byte
}

// An aheadPart is the payload of one guessed FPDU. If entries is 0, it is a gap: the trailer and
// the header between two payloads.
type aheadPart struct {
	size           int // length in bytes
	entry, entries int // index of the first entry in ring.iov; number of entries
	length         int // of the FPDU's payload: size, or more in the last part
	at             int // guessed offset in the response
}

// aheadFPDUs is the largest number of FPDUs guessed at a time. The guessed bytes never exceed the
// free part of the ring, so that spill can move them there.
const aheadFPDUs = 16

// lookAhead guesses which bytes follow the present FPDU, and appends entries to ring.iov that
// receive them. The argument entries is the number of entries that are filled already. lookAhead
// returns the new number, which is the same if it cannot guess. The argument certain is the number
// of bytes of the present FPDU's payload that the entries filled already receive.
func (x *receiver) lookAhead(entries, certain int) int {
	a := &x.ring.ahead
	a.n, a.next, a.left = 0, 0, 0
	x.border = false
	if x.life.faulty.Load() {
		return entries
	}
	read, at, gap := x.outlook(certain)
	if read == nil || read.size-at < directMin {
		return entries
	}
	if x.border = at == 0; x.border && !x.sure {
		return entries
	}
	sink := sinkCursor{read.pieces, read.offset}
	sink.skip(at - read.placed)
	a.read = read
	room := len(x.ring.buf) - x.w
	for i := 0; i < aheadFPDUs && at < read.size && room > gap+directTail && entries+2 < len(x.ring.iov); i++ {
		entries = x.addGap(i, gap, entries)
		room -= gap
		length := min(x.usual-wire.TaggedSize, read.size-at)
		k, n := sink.entries(x.ring.iov[entries:len(x.ring.iov)-1], min(length, room))
		a.parts[a.n] = aheadPart{size: n, entry: entries, entries: k, length: length, at: at}
		a.n++
		entries += k
		room -= n
		if at += n; n < length {
			return entries
		}
		gap = trailerSize(wire.TaggedSize+length) + taggedHeader
	}
	if at == read.size {
		gap = directTail
	}
	return x.addGap(aheadFPDUs, min(gap, room), entries)
}

const taggedHeader = wire.LengthSize + wire.TaggedSize

// addGap appends an entry for gap i, of size bytes. It returns the new number of entries in use.
func (x *receiver) addGap(i, size, entries int) int {
	a := &x.ring.ahead
	setEntry(&x.ring.iov[entries], a.gaps[i][:size])
	a.parts[a.n] = aheadPart{size: size, entry: entries}
	a.n++
	return entries + 1
}

// outlook guesses what follows the present FPDU. The result read is the Read whose response
// continues there; it is nil if anything else may follow. The result at is the offset of the next
// payload in the response, and gap the number of bytes before that payload. The argument certain
// is the number of bytes of the present FPDU's payload that the next read of the socket covers.
func (x *receiver) outlook(certain int) (read *outRead, at, gap int) {
	f, inRing := &x.fpdu, x.w-x.r
	switch {
	case f.phase == phaseHeader && inRing < taggedHeader:
		if read = x.oldestRead(); read != nil {
			at, gap = read.placed, taggedHeader-inRing
		}
		return read, at, gap
	case f.target != toSink, f.phase == phasePayload && (certain < f.left || inRing > 0), f.phase == phaseHeader:
		return nil, 0, 0
	}
	read, at = f.read, f.read.placed+certain
	if f.tagged.Last {
		read, at = nil, 0
		if reads := x.outstanding(); len(reads) > 1 {
			read = reads[1]
		}
	}
	if gap = f.trailer() + taggedHeader - inRing; gap <= 0 {
		return nil, 0, 0
	}
	return read, at, gap
}

// reveal processes the next part of the bytes that were read ahead. If the part is not the
// payload that was guessed, reveal moves it and the rest to the ring (spill). The caller has checked
// that there are bytes left.
func (x *receiver) reveal() {
	a, f := &x.ring.ahead, &x.fpdu
	p := &a.parts[a.next]
	n := min(p.size, a.left)
	switch {
	case p.entries == 0:
		x.w += copy(x.ring.buf[x.w:], x.ring.bytes(p.entry, n))
	case f.phase == phasePayload && f.target == toSink && x.r == x.w &&
		f.read == a.read && f.read.placed == p.at && f.left == p.length:
		x.placed(p.entry, n)
		x.sure = x.sure || p.at == 0
	default:
		x.sure = x.sure && p.at > 0
		x.spill()
		return
	}
	a.left -= n
	a.next++
}

// spill moves the remaining bytes that were read ahead to the ring.
func (x *receiver) spill() {
	a := &x.ring.ahead
	x.p.counters.misguessed.Add(1)
	for ; a.left > 0; a.next++ {
		p := &a.parts[a.next]
		for k := p.entry; a.left > 0 && k < p.entry+max(p.entries, 1); k++ {
			n := copy(x.ring.buf[x.w:], x.ring.bytes(k, min(a.left, int(x.ring.iov[k].Len))))
			x.w += n
			a.left -= n
		}
	}
}

// bytes returns the first n bytes of an entry.
func (r *ring) bytes(entry, n int) []byte { return unsafe.Slice(r.iov[entry].Base, n) }

// A sinkCursor is a position in the memory that a Read fills: its next byte is pieces[0][offset].
type sinkCursor struct {
	pieces [][]byte
	offset int
}

func (c *sinkCursor) skip(n int) {
	for n > 0 {
		k := min(n, len(c.pieces[0])-c.offset)
		c.offset += k
		if n -= k; c.offset == len(c.pieces[0]) {
			c.pieces, c.offset = c.pieces[1:], 0
		}
	}
}

// entries sets iov to the memory of the next n bytes, and moves the cursor behind them. It covers
// fewer bytes if they lie in more pieces than iov has room for. k is the number of entries set.
func (c *sinkCursor) entries(iov []unix.Iovec, n int) (k, bytes int) {
	for bytes < n && k < len(iov) {
		p := c.pieces[0][c.offset:]
		if p = p[:min(len(p), n-bytes)]; len(p) > 0 {
			setEntry(&iov[k], p)
			k++
		}
		bytes += len(p)
		if c.offset += len(p); c.offset == len(c.pieces[0]) {
			c.pieces, c.offset = c.pieces[1:], 0
		}
	}
	return k, bytes
}
