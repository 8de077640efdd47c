package iwarp

import (
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// none is the zero Cause. It means that there is no fault.
var none wire.Cause

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
