package iwarp

import (
	"slices"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// none is the zero Cause. It means that there is no fault.
var none wire.Cause

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

// endRead completes the oldest Read.
func (x *receiver) endRead() {
	x.mu.Lock()
	r := x.reads[0]
	x.reads, x.oldest = slices.Delete(x.reads, 0, 1), nil
	due := len(x.reads)
	x.mu.Unlock()
	ch := r.chain
	x.empty = 0
	x.answered.Add(1)
	*r = outRead{}
	x.p.outReads.Put(r)
	if due == 0 {
		x.streak = 0 // no Response is due, so the next FPDUs are likely to be short
	}
	x.tx.readDone(ch)
}
