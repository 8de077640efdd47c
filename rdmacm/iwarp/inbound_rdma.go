package iwarp

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// none is the zero Cause. It means that there is no fault.
var none wire.Cause

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

// place puts payload into the FPDU's target.
func (x *receiver) place(p []byte) {
	f := &x.fpdu
	switch f.target {
	case toScratch:
		if f.placed < len(x.scratch) {
			copy(x.scratch[f.placed:], p)
		}
	case toMessage:
		copy(x.send.message.store[x.send.length:], p)
		x.send.length += len(p)
	case toSink:
		f.read.copyIn(p)
		x.answered.Add(uint64(len(p)))
	case toBounce:
		copy(x.bounce[f.placed:], p)
	case toRegion:
		x.expose(p)
	}
	f.placed += len(p)
	f.left -= len(p)
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

// placed records that n bytes of payload were read straight into their destination, by entries of
// the ring. The argument entry is the index of the first of these entries.
func (x *receiver) placed(entry, n int) {
	f := &x.fpdu
	for k, left := entry, n; x.agreed.CRC && left > 0; k++ {
		m := min(left, int(x.ring.iov[k].Len))
		f.crc = wire.CRC(f.crc, x.ring.bytes(k, m))
		left -= m
	}
	switch f.target {
	case toMessage:
		x.send.length += n
	case toSink:
		f.read.pass(n)
		x.answered.Add(uint64(n))
	}
	f.placed += n
	f.left -= n
	if f.left == 0 {
		f.phase = phaseTrailer
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

// judgeWrite checks a segment of an RDMA Write (RFC 5041 §7.1). A segment without payload
// passes unchecked.
func (x *receiver) judgeWrite() {
	f := &x.fpdu
	if f.left == 0 {
		return
	}
	r := x.region(f.tagged.STag)
	if cause := x.regions.reach(r, f.tagged.Offset, f.left, rdmacm.RemoteWrite, &writeCauses); cause != none {
		f.wrong(cause, nil)
		return
	}
	f.region, f.target = r, toRegion
}

// region returns the region that stag names, or nil. For consecutive FPDUs that name the same
// region it looks the region up once.
func (x *receiver) region(stag uint32) *region {
	if x.named == nil || x.named.stag != stag || x.named.revoked.Load() {
		x.named = x.p.stags.lookup(stag)
	}
	return x.named
}

// expose puts payload into registered memory, behind the bytes of the FPDU that are there
// already. If the memory was revoked since the header was checked, expose records a fault.
func (x *receiver) expose(p []byte) {
	f := &x.fpdu
	f.region.mu.Lock()
	defer f.region.mu.Unlock()
	if f.region.memory == nil {
		f.wrong(wire.DDPInvalidSTag, nil)
		return
	}
	copy(f.region.memory[f.tagged.Offset-f.region.base+uint64(f.placed):], p)
}

// holdBack keeps the payload of an RDMA Write out of registered memory until the CRC was found
// right. A short payload stays in the ring, a large one goes to a buffer.
func (x *receiver) holdBack() {
	f := &x.fpdu
	if !f.large {
		f.phase = phaseWhole
		return
	}
	if x.bounce == nil {
		x.bounce = x.p.stashes.Get().(*largeStash)
	}
	f.target = toBounce
}

// unbounce copies into registered memory the payload that holdBack kept out of it.
func (x *receiver) unbounce() {
	f := &x.fpdu
	n := f.placed
	f.placed = 0
	x.expose(x.bounce[:n])
}

// judgeReadRequest checks the DDP header of a Read Request (RFC 5040 §5.2.1).
// endReadRequest checks the requested memory once the request has been received.
func (x *receiver) judgeReadRequest() {
	f := &x.fpdu
	h := &f.untagged
	waiting := int(x.tx.answering.Load())
	switch {
	case h.Queue != wire.QueueRead:
		f.wrong(wire.DDPQueue, nil)
	case h.MSN != x.msn[wire.QueueRead]+1:
		f.wrong(wire.DDPMSN, nil)
	case h.Offset != 0:
		f.wrong(wire.DDPOffset, nil)
	case f.left != wire.ReadRequestSize || !h.Last:
		f.wrong(wire.RDMAPStream, nil)
	case waiting >= x.agreed.IRD:
		f.wrong(wire.RDMAPStream, rdmacm.ErrReadDepth)
	default:
		f.target = toScratch
	}
}

// endReadRequest checks the memory that a Read Request names, and queues the answer. The receiver
// never waits for the answer to be sent.
func (x *receiver) endReadRequest() {
	f := &x.fpdu
	q := wire.ParseRead(x.scratch[:])
	var r *region
	if q.Size > 0 {
		r = x.region(q.SourceSTag)
		if cause := x.regions.reach(r, q.SourceOffset, int(q.Size), rdmacm.RemoteRead, &readCauses); cause != none {
			f.wrong(cause, nil)
			return
		}
	}
	x.msn[wire.QueueRead]++
	a := x.p.responses.Get().(*response)
	a.request, a.region, a.header = q, r, f.header
	x.tx.answer(a)
}
