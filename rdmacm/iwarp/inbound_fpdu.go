package iwarp

import (
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// phase is the receiver's progress within an FPDU.
type phase uint8

const (
	phaseHeader  phase = iota // length and DDP header are due
	phasePayload              // payload is due; it goes to its target as it arrives
	phaseWhole                // a short FPDU: the CRC is checked before the payload is placed
	phaseTrailer              // pad and CRC are due
)

// target says where an FPDU's payload goes.
type target uint8

const (
	toNowhere target = iota // the payload is dropped, after a fault; or there is none
	toScratch               // receiver.scratch, for RDMAP headers
	toMessage               // a Send's buffer
	toSink                  // the sink of the oldest RDMA Read
	toRegion                // registered memory
	toBounce                // receiver.bounce, until the CRC is checked; then registered memory
)

// inboundFPDU is the FPDU that is being received.
type inboundFPDU struct {
	phase  phase
	target target
	ulpdu  int // length of the ULPDU in bytes
	left   int // payload bytes not consumed
	placed int // payload bytes consumed
	// large is true if the FPDU has at least directMin bytes of payload. They may be read
	// straight into their destination.
	large bool
	crc   uint32

	header   [wire.UntaggedSize]byte // as received
	tagged   wire.Tagged
	untagged wire.Untagged
	isTagged bool
	region   *region
	read     *outRead

	// fault is the first fault found in the FPDU. If the connection uses CRCs, the receiver acts
	// on the fault only after the CRC was found right.
	fault  wire.Cause
	faulty bool
	detail error
}

func (f *inboundFPDU) op() wire.Opcode {
	if f.isTagged {
		return f.tagged.Op
	}
	return f.untagged.Op
}

func (f *inboundFPDU) headerSize() int {
	if f.isTagged {
		return wire.TaggedSize
	}
	return wire.UntaggedSize
}

// needs returns the number of bytes that the current phase needs in one piece.
func (f *inboundFPDU) needs() int {
	switch f.phase {
	case phaseHeader:
		return wire.LengthSize + wire.UntaggedSize
	case phaseWhole:
		return f.left + f.trailer()
	case phaseTrailer:
		return f.trailer()
	}
	return 1
}

// trailer returns the length of pad and CRC.
func (f *inboundFPDU) trailer() int { return trailerSize(f.ulpdu) }

func trailerSize(ulpdu int) int { return wire.Pad(ulpdu) + wire.CRCSize }

// stepOn processes the FPDU up to its end or its fault. It returns false if the ring holds too
// few bytes for that.
func (x *receiver) stepOn() bool {
	if x.fpdu.phase == phaseHeader && x.wholeSend() {
		return true
	}
	for x.step() {
		if x.fpdu.phase == phaseHeader || x.fpdu.faulty {
			return true
		}
	}
	return false
}

// step processes bytes of the ring for the current phase. It returns false if the phase needs
// more bytes.
func (x *receiver) step() bool {
	f := &x.fpdu
	in := x.ring.buf[x.r:x.w]
	switch f.phase {
	case phaseHeader:
		return x.stepHeader(in)

	case phasePayload:
		if len(in) == 0 {
			return false
		}
		p := in[:min(len(in), f.left)]
		x.r += len(p)
		if x.agreed.CRC {
			f.crc = wire.CRC(f.crc, p)
		}
		x.place(p)
		if f.left == 0 {
			f.phase = phaseTrailer
		}

	case phaseWhole:
		if len(in) < f.needs() {
			return false
		}
		payload, pad := in[:f.left], wire.Pad(f.ulpdu)
		f.crc = wire.CRC(f.crc, in[:f.left+pad])
		x.r += f.left + f.trailer()
		if wire.ParseCRC(in[f.left+pad:]) != f.crc {
			x.badCRC()
			return true
		}
		x.place(payload)
		x.endFPDU()

	case phaseTrailer:
		n := f.trailer()
		if len(in) < n {
			return false
		}
		x.r += n
		if x.agreed.CRC {
			pad := n - wire.CRCSize
			if wire.ParseCRC(in[pad:]) != wire.CRC(f.crc, in[:pad]) {
				x.badCRC()
				return true
			}
		}
		x.endFPDU()
	}
	return true
}

// stepHeader parses the header of the next FPDU. It returns false if the received bytes, in, do
// not contain the whole header.
func (x *receiver) stepHeader(in []byte) bool {
	f := &x.fpdu
	if len(in) < wire.LengthSize {
		return false
	}
	n := wire.ULPDULength(in)
	if n >= wire.ControlSize && len(in) < wire.LengthSize+wire.ControlSize {
		return false
	}
	f.ulpdu = n
	f.faulty, f.fault, f.detail = false, wire.Cause{}, nil
	f.region, f.read = nil, nil
	f.target, f.placed = toNowhere, 0
	var control wire.Control
	if n >= wire.ControlSize {
		control = wire.ParseControl(in[wire.LengthSize:])
	}
	f.isTagged = control.Tagged
	size := f.headerSize()
	if n < size {
		// The length field must be wrong: it has no room for a DDP header.
		x.life.fault(&wire.Termination{Cause: wire.MPAMarker}, nil)
		return true
	}
	if len(in) < wire.LengthSize+size {
		return false
	}
	in = in[:wire.LengthSize+size]
	x.r += len(in)
	copy(f.header[:], in[wire.LengthSize:])
	if x.agreed.CRC {
		f.crc = wire.CRC(0, in)
	}
	f.left = n - size
	f.phase = phasePayload
	if f.left == 0 {
		f.phase = phaseTrailer
	}
	x.judge(control)
	if f.large = f.left >= directMin && f.target >= toMessage; f.large {
		x.streak = largeStreak
	} else if x.streak > 0 {
		x.streak--
	}
	if f.faulty && !x.agreed.CRC {
		x.raise()
		return true
	}
	if f.target == toRegion && x.agreed.CRC {
		x.holdBack()
	}
	return true
}

// judge sets the FPDU's target, or its fault, according to its header. It checks versions first,
// then opcode and queue (RFC 5040 §7.2).
func (x *receiver) judge(control wire.Control) {
	f := &x.fpdu
	if control.Tagged {
		f.tagged = wire.ParseTagged(f.header[:])
	} else {
		f.untagged = wire.ParseUntagged(f.header[:])
	}
	switch {
	case control.DDP != wire.DDPVersion && control.Tagged:
		f.wrong(wire.DDPTaggedVersion, nil)
	case control.DDP != wire.DDPVersion:
		f.wrong(wire.DDPUntaggedVersion, nil)
	case control.RDMAP != wire.RDMAPVersion:
		f.wrong(wire.RDMAPVersionFault, nil)
	case control.Op > wire.Terminate || control.Op.Tagged() != control.Tagged:
		f.wrong(wire.RDMAPOpcode, nil)
	case control.Op == wire.Write:
		x.judgeWrite()
	case control.Op == wire.ReadResponse:
		x.judgeReadResponse()
	case control.Op == wire.ReadRequest:
		x.judgeReadRequest()
	case control.Op == wire.Terminate:
		f.target = toScratch
		if f.untagged.Queue != wire.QueueTerminate {
			f.wrong(wire.DDPQueue, nil)
		}
	default:
		x.judgeSend()
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

// wrong records the first fault of the FPDU.
func (f *inboundFPDU) wrong(cause wire.Cause, detail error) {
	if f.faulty {
		return
	}
	f.faulty, f.fault, f.detail = true, cause, detail
	f.target = toNowhere
}

// badCRC ends the connection, because no part of an FPDU with a wrong CRC can be trusted.
func (x *receiver) badCRC() {
	x.life.fault(&wire.Termination{Cause: wire.MPACRC}, nil)
}

// raise ends the connection because of the FPDU's fault. The Terminate quotes the FPDU's header.
func (x *receiver) raise() {
	x.validated()
	f := &x.fpdu
	t := wire.Termination{Cause: f.fault, SegmentLength: uint16(f.ulpdu), DDP: f.header[:f.headerSize()]}
	if f.op() == wire.ReadRequest && f.fault.Layer == wire.LayerRDMAP && f.fault.Type == 1 {
		t.RDMAP = x.scratch[:wire.ReadRequestSize]
	}
	x.life.fault(&t, f.detail)
}

// validated allows sending once the first FPDU has been received and validated (RFC 5044 §7.1.2).
func (x *receiver) validated() {
	if x.begun {
		return
	}
	x.begun = true
	x.life.heard()
}

// endFPDU finishes an FPDU that was received whole and whose CRC is right.
func (x *receiver) endFPDU() {
	f := &x.fpdu
	f.phase = phaseHeader
	switch {
	case f.faulty:
	case f.op() == wire.ReadRequest:
		x.endReadRequest()
	case f.target == toBounce:
		x.unbounce()
		f.target = toNowhere
	}
	if f.faulty {
		x.raise()
		return
	}
	x.validated()
	if !x.brought() {
		x.countEmpty()
		return
	}
	switch f.op() {
	case wire.Write, wire.ReadRequest:
	case wire.ReadResponse:
		if f.tagged.Last {
			x.endRead()
		}
	case wire.Terminate:
		x.peerTerminated()
	default:
		if f.untagged.Last {
			x.endSend()
		}
	}
	if f.faulty {
		x.raise()
	}
}

// mostEmpty is the number of FPDUs without payload after which the connection ends. The count
// starts anew with each complete Send or Read Response. It is not small, because an initiator
// sends a few such FPDUs to say that it is ready.
const mostEmpty = 1024

// brought reports whether the complete FPDU carried payload, requested payload, or completed a
// Send, a Read Response or a Terminate.
func (x *receiver) brought() bool {
	f := &x.fpdu
	switch f.op() {
	case wire.Write:
		return f.ulpdu > wire.TaggedSize
	case wire.ReadRequest:
		return wire.ParseRead(x.scratch[:]).Size > 0
	case wire.ReadResponse:
		return f.ulpdu > wire.TaggedSize || f.tagged.Last
	}
	return f.ulpdu > wire.UntaggedSize || f.untagged.Last
}

// countEmpty counts an FPDU that brought nothing, and ends the connection at mostEmpty of them. Each
// costs this side more than the peer, and no other rule limits their number.
func (x *receiver) countEmpty() {
	if x.empty++; x.empty == mostEmpty {
		x.p.counters.emptyEnds.Add(1)
		x.life.end(ErrEmpty, true)
	}
}
