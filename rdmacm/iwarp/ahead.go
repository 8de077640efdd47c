package iwarp

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// Where the payload of an FPDU goes is known by its header. To read more of the
// response to a large RDMA Read than one FPDU with one system call, the receiver
// guesses that the next FPDUs of it are as long as those before, and lays out their
// payload in the sink and what stands between (trailer and header) in gaps. Each
// header is then judged as ever: where it is the one that was guessed, its payload
// is in its place. Where it is not, all that was read ahead moves to the ring, in
// the order in which it came, and is taken apart there.
//
// Only the sink of the Read is written to ahead of the headers. Until the Read is
// complete its content is undefined, and no more than is left of it is guessed.

// ahead is what was laid out beyond the FPDU that is being received.
type ahead struct {
	read  *outRead // that the payload is guessed to answer
	parts [2*aheadFPDUs + 1]aheadPart
	n     int // parts in use
	next  int // the first one that was not looked at
	left  int // bytes of the parts from next on that were read
	gaps  [aheadFPDUs + 1][directTail]byte
}

// An aheadPart is a gap, which has no entries, or the payload of an FPDU.
type aheadPart struct {
	size           int // bytes that it has room for
	entry, entries int // of the ring's, for payload
	length         int // of the FPDU's payload: size, or more in the last part
	at             int // where in the response it is guessed to be
}

// aheadFPDUs is how many FPDUs are guessed at a time. All that is guessed fits the
// ring beside what is there already.
const aheadFPDUs = 16

// lookAhead lays out what is likely to come next, behind the ring's entries that are
// in use, and returns how many are in use then: as many as before when nothing can be said.
// certain is how many bytes of the present FPDU's payload those before are for.
func (x *receiver) lookAhead(entries, certain int) int {
	a := &x.ring.ahead
	a.n, a.next, a.left = 0, 0, 0
	x.border = false
	if x.usual == 0 || x.life.faulty.Load() {
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

// addGap lays out gap i, of so many bytes.
func (x *receiver) addGap(i, size, entries int) int {
	a := &x.ring.ahead
	setEntry(&x.ring.iov[entries], a.gaps[i][:size])
	a.parts[a.n] = aheadPart{size: size, entry: entries}
	a.n++
	return entries + 1
}

// outlook is the Read whose response is due behind the present FPDU, where in the
// response that begins, and how many bytes stand before its payload; no Read where
// something else may be due. certain is how much of the present FPDU's payload is
// about to be read.
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
		read, at = read.next, 0
	}
	if gap = f.trailer() + taggedHeader - inRing; gap <= 0 {
		return nil, 0, 0
	}
	return read, at, gap
}

// reveal goes on with what was read ahead. It says false when there is no more.
func (x *receiver) reveal() bool {
	a, f := &x.ring.ahead, &x.fpdu
	if a.left == 0 {
		return false
	}
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
		return true
	}
	a.left -= n
	a.next++
	return true
}

// spill moves what was read ahead to the ring.
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

// bytes are the first n of an entry.
func (r *ring) bytes(entry, n int) []byte { return unsafe.Slice(r.iov[entry].Base, n) }

// A sinkCursor is a place in the sink of a Read: pieces[0][offset:].
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

// entries lists the places of the next n bytes, or of fewer where they lie in too
// many pieces, and passes over them.
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
