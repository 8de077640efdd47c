package rawpeer

import (
	"bytes"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// Tagged returns the ULPDU of a tagged segment.
func Tagged(h wire.Tagged, payload []byte) []byte {
	b := make([]byte, wire.TaggedSize+len(payload))
	h.Put(b)
	copy(b[wire.TaggedSize:], payload)
	return b
}

// Untagged returns the ULPDU of an untagged segment.
func Untagged(h wire.Untagged, payload []byte) []byte {
	b := make([]byte, wire.UntaggedSize+len(payload))
	h.Put(b)
	copy(b[wire.UntaggedSize:], payload)
	return b
}

// Bytes returns the FPDU of a ULPDU.
func (p *Peer) Bytes(ulpdu []byte) []byte {
	b := make([]byte, wire.FPDUSize(len(ulpdu)))
	wire.PutFPDU(b, ulpdu, p.CRC)
	return b
}

// WriteFPDU sends the FPDUs of the ULPDUs with one write.
func (p *Peer) WriteFPDU(ulpdus ...[]byte) {
	p.T.Helper()
	var all []byte
	for _, u := range ulpdus {
		all = append(all, p.Bytes(u)...)
	}
	p.Write(all)
}

// Ready returns the ULPDU of an empty RDMA Write, which allows the responder to send.
func Ready() []byte { return Tagged(wire.Tagged{Op: wire.Write, Last: true, STag: 1}, nil) }

// Send returns the ULPDU of a Send of one segment, with the next sequence number of its queue.
func (p *Peer) Send(payload []byte) []byte {
	return Untagged(wire.Untagged{Op: wire.Send, Last: true, MSN: p.NextMSN(QueueSend)}, payload)
}

// ReadRequest returns the ULPDU of a Read Request, with the next sequence number of its queue.
func (p *Peer) ReadRequest(r wire.Read) []byte {
	b := make([]byte, wire.ReadRequestSize)
	r.Put(b)
	return Untagged(wire.Untagged{Op: wire.ReadRequest, Last: true, Queue: QueueRead, MSN: p.NextMSN(QueueRead)}, b)
}

// Terminate returns the ULPDU of a Terminate message.
func Terminate(t wire.Termination) []byte {
	b := make([]byte, t.Size())
	t.Put(b)
	return Untagged(wire.Untagged{Op: wire.Terminate, Last: true, Queue: QueueTerminate, MSN: 1}, b)
}

// An FPDU is a received FPDU.
type FPDU struct {
	wire.Control
	// Raw is the whole FPDU, from the length field to the CRC.
	Raw []byte
	// ULPDU is the DDP segment. Payload is the part of it behind the DDP header.
	ULPDU, Payload []byte
	Tagged         wire.Tagged
	Untagged       wire.Untagged
}

// ReadFPDU receives an FPDU. It asserts that pad and reserved bits are zero, that the
// versions are the IETF's and, if p.CRC is set, that the CRC is right.
func (p *Peer) ReadFPDU() FPDU {
	p.T.Helper()
	head := p.ReadBytes(wire.LengthSize)
	n := wire.ULPDULength(head)
	raw := append(head, p.ReadBytes(wire.FPDUSize(n)-wire.LengthSize)...)
	end := len(raw) - wire.CRCSize
	if p.CRC && wire.CRC(0, raw[:end]) != wire.ParseCRC(raw[end:]) {
		p.T.Fatalf("raw peer: FPDU of %d bytes with a wrong CRC", len(raw))
	}
	return p.parse(raw, raw[wire.LengthSize:wire.LengthSize+n], raw[wire.LengthSize+n:end])
}

func (p *Peer) parse(raw, ulpdu, pad []byte) FPDU {
	p.T.Helper()
	if !bytes.Equal(pad, make([]byte, len(pad))) {
		p.T.Fatalf("raw peer: pad %x", pad)
	}
	if len(ulpdu) < wire.TaggedSize {
		p.T.Fatalf("raw peer: ULPDU %x", ulpdu)
	}
	f := FPDU{Control: wire.ParseControl(ulpdu), Raw: raw, ULPDU: ulpdu}
	if ulpdu[0]&0x3c != 0 || ulpdu[1]&0x30 != 0 || f.DDP != wire.DDPVersion || f.RDMAP != wire.RDMAPVersion {
		p.T.Fatalf("raw peer: control bytes %x", ulpdu[:2])
	}
	if f.Control.Tagged {
		f.Tagged = wire.ParseTagged(ulpdu)
		f.Payload = ulpdu[wire.TaggedSize:]
		return f
	}
	if len(ulpdu) < wire.UntaggedSize {
		p.T.Fatalf("raw peer: ULPDU %x", ulpdu)
	}
	f.Untagged = wire.ParseUntagged(ulpdu)
	f.Payload = ulpdu[wire.UntaggedSize:]
	return f
}

// ReadOp receives an FPDU, and asserts that its opcode is op.
func (p *Peer) ReadOp(op wire.Opcode) FPDU {
	p.T.Helper()
	f := p.ReadFPDU()
	if f.Op != op {
		p.T.Fatalf("raw peer: %v %x where %v was due", f.Op, f.ULPDU, op)
	}
	return f
}

// ReadMessage receives all segments of a message, and asserts that they make up one message (RFC
// 5041 §4, §5.2). It returns the first FPDU, and the payload of all FPDUs together.
func (p *Peer) ReadMessage(op wire.Opcode) (first FPDU, payload []byte) {
	p.T.Helper()
	first = p.ReadOp(op)
	payload = append([]byte(nil), first.Payload...)
	for f := first; !f.Last; {
		f = p.ReadOp(op)
		if f.Control.Tagged {
			want := first.Tagged
			want.Offset += uint64(len(payload))
			want.Last = f.Last
			if f.Tagged != want {
				p.T.Fatalf("raw peer: segment %+v where %+v was due", f.Tagged, want)
			}
		} else {
			want := first.Untagged
			want.Offset += uint32(len(payload))
			want.Last = f.Last
			if f.Untagged != want {
				p.T.Fatalf("raw peer: segment %+v where %+v was due", f.Untagged, want)
			}
		}
		payload = append(payload, f.Payload...)
	}
	return first, payload
}

// ReadTerminate receives a Terminate, and returns it. It asserts that the Terminate has the given
// cause, and that the peer then closes the connection in order.
func (p *Peer) ReadTerminate(cause wire.Cause) wire.Termination {
	p.T.Helper()
	f := p.ReadOp(wire.Terminate)
	want := wire.Untagged{Op: wire.Terminate, Last: true, Queue: QueueTerminate, MSN: 1}
	if f.Untagged != want {
		p.T.Fatalf("raw peer: Terminate %+v", f.Untagged)
	}
	t, err := wire.ParseTermination(f.Payload)
	if err != nil {
		p.T.Fatal(err)
	}
	if t.Cause != cause {
		p.T.Fatalf("raw peer: Terminate says %v, want %v", t.Cause, cause)
	}
	if len(f.Payload) != t.Size() {
		p.T.Fatalf("raw peer: Terminate %x", f.Payload)
	}
	p.ReadEOF()
	return t
}
