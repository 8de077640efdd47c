package wire

import "encoding/binary"

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

// ParseUntagged reads a header from b, which holds at least UntaggedSize bytes. It ignores
// the versions and the tagged bit: see ParseControl.
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
// a plain Send or of a Send with Invalidate, in the supported versions. invalidates is true for a
// Send with Invalidate.
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
