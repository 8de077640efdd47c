package wire

import (
	"encoding/binary"
	"fmt"
)

// An Opcode is the RDMAP message type (RFC 5040 Figure 4, RFC 7306 Figure 1).
type Opcode uint8

// Message types.
const (
	Write             Opcode = 0x0
	ReadRequest       Opcode = 0x1
	ReadResponse      Opcode = 0x2
	Send              Opcode = 0x3
	SendInvalidate    Opcode = 0x4
	SendSolicited     Opcode = 0x5
	SendSolInvalidate Opcode = 0x6
	Terminate         Opcode = 0x7

	// The receiver rejects the following operations (RFC 7306) as unexpected. They are defined
	// only so that errors and logs can name them.
	Immediate          Opcode = 0x8
	ImmediateSolicited Opcode = 0x9
	AtomicRequest      Opcode = 0xa
	AtomicResponse     Opcode = 0xb
)

var opcodeNames = [...]string{
	"RDMA Write", "RDMA Read Request", "RDMA Read Response", "Send", "Send with Invalidate",
	"Send with Solicited Event", "Send with Solicited Event and Invalidate", "Terminate",
	"Immediate Data", "Immediate Data with Solicited Event", "Atomic Request", "Atomic Response",
}

func (o Opcode) String() string {
	if int(o) < len(opcodeNames) {
		return opcodeNames[o]
	}
	return fmt.Sprintf("Opcode(%#x)", uint8(o))
}

// Tagged reports whether o uses DDP's tagged model (RFC 5040 Figure 4).
func (o Opcode) Tagged() bool { return o == Write || o == ReadResponse }

// IsSend reports whether o is one of the four Send types, which use QueueSend.
func (o Opcode) IsSend() bool { return o >= Send && o <= SendSolInvalidate }

// Invalidates reports whether o carries an STag to invalidate.
func (o Opcode) Invalidates() bool { return o == SendInvalidate || o == SendSolInvalidate }

// Queue numbers of untagged messages (RFC 5040 §5).
const (
	QueueSend      uint32 = 0
	QueueRead      uint32 = 1
	QueueTerminate uint32 = 2
)

// Versions that this implementation speaks.
const (
	DDPVersion   = 1
	RDMAPVersion = 1
)

// Bits of the two control bytes that every DDP header starts with (RFC 5041 §4.1, RFC 5040 §4.1).
const (
	tagged      = 0x80
	last        = 0x40
	ddpVersion  = 0x03
	rdmaVersion = 0xc0
	opcodeBits  = 0x0f

	rdmaVersionShift = 6
)

// Control holds the fields of the two control bytes. It does not keep the reserved bits.
type Control struct {
	Tagged, Last bool
	DDP, RDMAP   uint8 // versions
	Op           Opcode
}

// ControlSize is the length of a Control, in bytes.
const ControlSize = 2

// ParseControl reads the control bytes at the start of b.
func ParseControl(b []byte) Control {
	_ = b[1]
	return Control{
		Tagged: b[0]&tagged != 0,
		Last:   b[0]&last != 0,
		DDP:    b[0] & ddpVersion,
		RDMAP:  b[1] >> rdmaVersionShift,
		Op:     Opcode(b[1] & opcodeBits),
	}
}

// Put writes c into the first ControlSize bytes of b.
func (c Control) Put(b []byte) {
	b[0] = c.DDP & ddpVersion
	if c.Tagged {
		b[0] |= tagged
	}
	if c.Last {
		b[0] |= last
	}
	b[1] = c.RDMAP<<rdmaVersionShift | uint8(c.Op)&opcodeBits
}

func putControl(b []byte, op Opcode, isTagged, isLast bool) {
	Control{Tagged: isTagged, Last: isLast, DDP: DDPVersion, RDMAP: RDMAPVersion, Op: op}.Put(b)
}

// UntaggedSize is the length of an untagged DDP header, in bytes.
const UntaggedSize = 18

// Untagged is the header of an untagged DDP segment (RFC 5041 §4.3).
type Untagged struct {
	Op   Opcode
	Last bool
	// Invalidate is the STag to invalidate (RFC 5040 §4.1). If Op does not invalidate, the
	// sender sets it to zero and the receiver ignores it.
	Invalidate uint32
	Queue      uint32
	MSN        uint32
	// Offset is the message offset (MO) of the segment's first byte.
	Offset uint32
}

// ParseUntagged reads a header. It ignores the versions and the tagged bit: see ParseControl.
func ParseUntagged(b []byte) Untagged {
	_ = b[UntaggedSize-1]
	return Untagged{
		Op:         Opcode(b[1] & opcodeBits),
		Last:       b[0]&last != 0,
		Invalidate: binary.BigEndian.Uint32(b[2:]),
		Queue:      binary.BigEndian.Uint32(b[6:]),
		MSN:        binary.BigEndian.Uint32(b[10:]),
		Offset:     binary.BigEndian.Uint32(b[14:]),
	}
}

// IsLastOfSend reports whether the control bytes at the start of b belong to the last segment of
// a plain Send or of a Send with Invalidate. It returns false if the versions are not the
// supported ones. invalidates is true for a Send with Invalidate.
func IsLastOfSend(b []byte) (is, invalidates bool) {
	_ = b[1]
	if b[0]&(tagged|last|ddpVersion) != last|DDPVersion || b[1]&rdmaVersion != RDMAPVersion<<rdmaVersionShift {
		return false, false
	}
	op := Opcode(b[1] & opcodeBits)
	return op == Send || op == SendInvalidate, op == SendInvalidate
}

// Put writes h into the first UntaggedSize bytes of b.
func (h Untagged) Put(b []byte) {
	_ = b[UntaggedSize-1]
	putControl(b, h.Op, false, h.Last)
	binary.BigEndian.PutUint32(b[2:], h.Invalidate)
	binary.BigEndian.PutUint32(b[6:], h.Queue)
	binary.BigEndian.PutUint32(b[10:], h.MSN)
	binary.BigEndian.PutUint32(b[14:], h.Offset)
}

// TaggedSize is the length of a tagged DDP header, in bytes.
const TaggedSize = 14

// Tagged is the header of a tagged DDP segment (RFC 5041 §4.2).
type Tagged struct {
	Op     Opcode
	Last   bool
	STag   uint32
	Offset uint64
}

// ParseTagged reads a header. It ignores the versions and the tagged bit: see ParseControl.
func ParseTagged(b []byte) Tagged {
	_ = b[TaggedSize-1]
	return Tagged{
		Op:     Opcode(b[1] & opcodeBits),
		Last:   b[0]&last != 0,
		STag:   binary.BigEndian.Uint32(b[2:]),
		Offset: binary.BigEndian.Uint64(b[6:]),
	}
}

// Put writes h into the first TaggedSize bytes of b.
func (h Tagged) Put(b []byte) {
	_ = b[TaggedSize-1]
	putControl(b, h.Op, true, h.Last)
	binary.BigEndian.PutUint32(b[2:], h.STag)
	binary.BigEndian.PutUint64(b[6:], h.Offset)
}

// ReadRequestSize is the length of the RDMAP header of an RDMA Read Request, in bytes.
const ReadRequestSize = 28

// Read is the RDMAP header of an RDMA Read Request (RFC 5040 §4.4). The sink is the memory
// of the requesting side.
type Read struct {
	SinkSTag     uint32
	SinkOffset   uint64
	Size         uint32
	SourceSTag   uint32
	SourceOffset uint64
}

// ParseRead reads a header.
func ParseRead(b []byte) Read {
	_ = b[ReadRequestSize-1]
	return Read{
		SinkSTag:     binary.BigEndian.Uint32(b),
		SinkOffset:   binary.BigEndian.Uint64(b[4:]),
		Size:         binary.BigEndian.Uint32(b[12:]),
		SourceSTag:   binary.BigEndian.Uint32(b[16:]),
		SourceOffset: binary.BigEndian.Uint64(b[20:]),
	}
}

// Put writes r into the first ReadRequestSize bytes of b.
func (r Read) Put(b []byte) {
	_ = b[ReadRequestSize-1]
	binary.BigEndian.PutUint32(b, r.SinkSTag)
	binary.BigEndian.PutUint64(b[4:], r.SinkOffset)
	binary.BigEndian.PutUint32(b[12:], r.Size)
	binary.BigEndian.PutUint32(b[16:], r.SourceSTag)
	binary.BigEndian.PutUint64(b[20:], r.SourceOffset)
}
