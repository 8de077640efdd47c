package wire

import "encoding/binary"

// TaggedSize is the length of a tagged DDP header, in bytes.
const TaggedSize = 14

// Tagged is the header of a tagged DDP segment (RFC 5041 §4.2).
type Tagged struct {
	Op     Opcode
	Last   bool
	STag   uint32
	Offset uint64
}

// ParseTagged reads a header from b, which holds at least TaggedSize bytes. It ignores the
// versions and the tagged bit: see ParseControl.
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
